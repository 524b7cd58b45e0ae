package house

func quarryCases() []rulecase {
	hunt := func(call string) map[string]string {
		return map[string]string{
			quarries:              "package hunt\n\nvar all = []Quarry{\n" + call + ",\n}\n",
			"ring/a_test.go":      "package ring\n\nimport \"testing\"\n\nfunc TestA(t *testing.T) { t.Error() }\n",
			"ring/deep/b_test.go": "package deep\n\nimport \"testing\"\n\nfunc TestB(t *testing.T) { t.Error() }\n\nfunc TestHelp(n int) {}\n",
			"ring/c.go":           "package ring\n\nimport \"testing\"\n\nfunc TestC(t *testing.T) {}\n",
		}
	}
	return []rulecase{
		{"a test that is there", Quarries, hunt(`by("ring", "TestA", 1)`), nil},
		{"a test of another package", Quarries, hunt(`by("ring", "TestB", 1)`), []string{quarries + ":4 ring has no test TestB"}},
		{"one of two", Quarries, hunt(`by("ring/deep", "TestB|TestA", 1)`), []string{quarries + ":4 ring/deep has no test TestA"}},
		{"no test, but called so", Quarries, hunt(`by("ring/deep", "TestHelp", 1)`), []string{quarries + ":4 no test TestHelp"}},
		{"not in a file of tests", Quarries, hunt(`by("ring", "TestC", 1)`), []string{quarries + ":4 no test TestC"}},
		{"a name that is computed", Quarries, hunt(`by("ring", name, 1)`), []string{quarries + ":4 ring has no test"}},
		{"a mistake of the simulator", Quarries, hunt(`on(OneNode, 1, "TestX")`), nil},
	}
}
