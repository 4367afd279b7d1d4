"""`everystep train`: a request, its seeds in processes or on a cluster, pictures."""
