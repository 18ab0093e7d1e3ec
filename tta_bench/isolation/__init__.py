"""One cell: a host with images and labels, and a method that adapts in a process without them."""
