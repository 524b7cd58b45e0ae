package machine

import (
	"fmt"
	"os"
	"testing"
)

// TestSweepRemovesWhatADeadRunLeft, and nothing of one that is alive.
func TestSweepRemovesWhatADeadRunLeft(t *testing.T) {
	if why := Namespaces(); why != nil {
		t.Skip(why)
	}
	const nobody = 1 << 22 // over the largest process ID
	dead, own := fmt.Sprintf("%s%dn1", Prefix, nobody), fmt.Sprintf("%s%dn1", Prefix, os.Getpid())
	for _, name := range []string{dead, own} {
		if _, err := Command("ip", "netns", "add", name); err != nil {
			t.Fatal(err)
		}
	}
	defer func() {
		if err := RemoveNetwork(fmt.Sprintf("%s%d", Prefix, os.Getpid())); err != nil {
			t.Error(err)
		}
	}()
	if err := Sweep(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(NetnsDir + dead); !os.IsNotExist(err) {
		t.Errorf("that of a dead run: %v", err)
	}
	if _, err := os.Stat(NetnsDir + own); err != nil {
		t.Errorf("that of a living one: %v", err)
	}
}
