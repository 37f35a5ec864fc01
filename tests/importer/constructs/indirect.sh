X=abc; Y=X; python m ${!Y}
