// Package verdict judges a run of the laboratory: its history by package jepsen/check
// and by the ledger of claims, what the run itself has found, and whether enough has
// happened to prove anything. It writes the reports (Markdown, HTML), keeps the run,
// and judges a kept one again ([Again]).
package verdict
