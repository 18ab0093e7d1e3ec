"""Image sets, prefetching, the cache of decoded images, and seeds from names."""
