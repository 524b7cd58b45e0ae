// Package config is the configuration of a server: one struct, read from
// defaults, a YAML file, the environment and flags, the later ones winning.
//
// Each setting has one name: the flag --eta is the key `eta` of the file and
// the variable NORN_SERVER_ETA. An unknown key is an error that names the
// nearest known one; Validate reports all problems at once.
package config
