"""Images before any order: sets of images, reading ahead, the cache of decoded ones, seeds from names."""
