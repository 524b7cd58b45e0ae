package store

// TablesFrom makes tables of parts that have so many bytes.
func TablesFrom(p *Pebble, bytes int) { p.least = bytes }

// Tables is how many tables were made of batches.
func Tables(p *Pebble) int { return p.drafts }
