"""Which of torch's operations CUDA treats in a special way, by name."""

from __future__ import annotations

INDEXING = frozenset({"index", "index_put", "index_put_", "_index_put_impl_", "_unsafe_index", "_unsafe_index_put"})
COPIES = frozenset({"copy_", "_to_copy", "_foreach_copy_"})
TAKES_NUMBERS = frozenset({"where", "masked_fill", "masked_fill_", "fill", "fill_", "lerp", "lerp_"})
"""Operations that take 0-dim CPU tensors as numbers, besides the pointwise ones."""

WAITS = frozenset(
    {
        *("_local_scalar_dense", "nonzero", "masked_select", "equal", "_unique2", "unique_dim", "unique_consecutive"),
        *("bincount", "histc", "multinomial", "linalg_inv_ex", "_linalg_eigh", "_linalg_svd", "_linalg_solve_ex"),
        *("linalg_eig", "linalg_cholesky_ex", "linalg_qr", "linalg_lstsq"),
    }
)
"""The host reads a value, the size of a result, or an error code."""

MATRIX_PRODUCTS = frozenset({"mm", "bmm", "addmm", "baddbmm", "addbmm", "mv", "addmv", "dot", "vdot", "addr"})
ATTENTION = frozenset(
    {"_scaled_dot_product_flash_attention_for_cpu", "_scaled_dot_product_flash_attention_for_cpu_backward"}
)
CONVOLUTIONS = frozenset({"convolution", "convolution_backward"})

UNORDERED = frozenset(
    {
        *("convolution_backward", "_scaled_dot_product_flash_attention_for_cpu_backward", "cumsum", "grid_sampler_2d"),
        *("index_add", "index_add_", "scatter_add", "scatter_add_", "embedding_dense_backward", "native_batch_norm"),
        *("_index_put_impl_", "index_put", "index_put_", "grid_sampler_2d_backward", "upsample_bilinear2d_backward"),
    }
)
"""Operations whose sums CUDA may take in any order, unless it is asked for deterministic algorithms."""

NOT_DETERMINISTIC = frozenset(
    {
        *("cumsum", "kthvalue", "histc", "grid_sampler_2d_backward", "grid_sampler_3d_backward"),
        *("upsample_bicubic2d_backward", "upsample_trilinear3d_backward", "upsample_linear1d_backward"),
        *("reflection_pad1d_backward", "reflection_pad2d_backward", "replication_pad2d_backward"),
        *("adaptive_max_pool2d_backward", "_adaptive_avg_pool2d_backward", "avg_pool3d_backward"),
        *("max_pool3d_with_indices_backward", "nll_loss2d_forward"),
    }
)
"""Operations without a deterministic implementation on CUDA: an error if deterministic algorithms are asked for."""

LOWER = frozenset(
    {
        *("conv1d", "conv2d", "conv3d", "conv_tbc", "convolution", "_convolution", "conv_transpose1d"),
        *("conv_transpose2d", "conv_transpose3d", "cudnn_convolution", "cudnn_convolution_transpose", "prelu"),
        *("scaled_dot_product_attention", "_scaled_dot_product_flash_attention", "multi_head_attention_forward"),
        *("addmm", "addmv", "addr", "addbmm", "baddbmm", "bmm", "mm", "mv", "matmul", "__matmul__", "__rmatmul__"),
        *("linear", "einsum", "chain_matmul", "multi_dot", "linalg_multi_dot", "vecdot", "linalg_vecdot"),
        *("_thnn_fused_lstm_cell", "_thnn_fused_gru_cell", "lstm_cell", "gru_cell", "rnn_tanh_cell", "rnn_relu_cell"),
        "_cudnn_rnn",
    }
)
"""What CUDA's autocast computes in the lower precision."""

FULL = frozenset(
    {
        *("acos", "asin", "cosh", "erfinv", "exp", "expm1", "log", "log10", "log2", "log1p", "reciprocal", "rsqrt"),
        *("sinh", "tan", "pow", "__pow__", "__rpow__", "softplus", "layer_norm", "native_layer_norm", "group_norm"),
        *("rms_norm", "norm", "normalize", "frobenius_norm", "nuclear_norm", "matrix_norm", "linalg_matrix_norm"),
        *("vector_norm", "linalg_vector_norm", "linalg_matrix_sqrth", "cosine_similarity", "cosine_embedding_loss"),
        *("nll_loss", "nll_loss2d", "cross_entropy", "cross_entropy_loss", "poisson_nll_loss", "kl_div", "l1_loss"),
        *(
            "smooth_l1_loss",
            "huber_loss",
            "mse_loss",
            "margin_ranking_loss",
            "multilabel_margin_loss",
            "soft_margin_loss",
        ),
        *("triplet_margin_loss", "multi_margin_loss", "hinge_embedding_loss", "binary_cross_entropy_with_logits"),
        *("dist", "pdist", "cdist", "renorm", "logsumexp", "softmax", "log_softmax", "softmin", "prod", "cumprod"),
        *("cumsum", "sum", "interpolate", "_upsample_nearest_exact1d", "_upsample_nearest_exact2d"),
        *("_upsample_nearest_exact3d", "_upsample_bicubic2d_aa", "_upsample_bilinear2d_aa", "upsample_linear1d"),
        *("upsample_nearest1d", "upsample_nearest2d", "upsample_nearest3d", "upsample_bilinear2d"),
        *("upsample_bicubic2d", "upsample_trilinear3d"),
    }
)
"""What CUDA's autocast computes in float32."""

WIDEST = frozenset(
    {
        *("addcdiv", "addcmul", "atan2", "bilinear", "cross", "dot", "vdot", "grid_sample", "grid_sampler"),
        *("index_put", "scatter_add", "tensordot"),
    }
)
"""What CUDA's autocast computes in the widest type among the inputs."""

BANNED = frozenset({"binary_cross_entropy"})
"""What CUDA's autocast refuses."""
