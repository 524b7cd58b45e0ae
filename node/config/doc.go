// Package config is the whole configuration of a server in one struct: its
// defaults, where values come from, and what is wrong with them.
//
// Contract.
//
//   - Every setting has one name. It is the key in the YAML file, with -- before
//     it the flag of `norn server`, and as NORN_SERVER_ with underscores and
//     capitals the environment variable.
//   - A flag beats the environment, which beats the file, which beats the
//     default ([Load]).
//   - Whatever cannot be understood is an error that names its place: the flag,
//     the variable, or file and line. A key that does not exist is refused with
//     the nearest one that does. All problems are reported at once.
//   - Sizes are bytes, or a number with KiB, MiB, GiB, TiB (KB, MB, GB, TB are
//     powers of ten). Durations are Go's: 500ms, 30s, 5m, 168h.
package config
