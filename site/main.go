package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
)

func main() {
	to := flag.String("to", "", "write the content for Eleventy to this `directory`")
	check := flag.String("check", "", "check the finished site in this `directory`")
	flag.Parse()
	if err := run(*to, *check); err != nil {
		fmt.Fprintln(os.Stderr, "site:", err)
		os.Exit(1)
	}
}

func run(to, check string) error {
	switch {
	case to != "":
		return content("docs", to)
	case check != "":
		found, pages, err := deadLinks(check)
		if err != nil {
			return err
		}
		for _, f := range found {
			fmt.Fprintln(os.Stderr, f)
		}
		if len(found) > 0 {
			return fmt.Errorf("%d dead links", len(found))
		}
		fmt.Printf("%d pages, no dead links\n", pages)
		return nil
	}
	return errors.New("-to or -check is needed")
}
