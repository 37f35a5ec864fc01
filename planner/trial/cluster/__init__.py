"""A Ray cluster runs a trial: the job, its log and its end. Ray in ``client`` alone; no torch."""
