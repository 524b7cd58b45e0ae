// Command hunt makes every mistake of package internal/mutant and says which
// checker finds it, and after how long: `make mutants`. It must be built with the
// tag "mutants".
package main
