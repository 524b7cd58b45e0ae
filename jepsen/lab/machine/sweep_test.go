package machine

import (
	"errors"
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

// TestADeviceThatIsGoneIsNoError: the end of a veth goes with the other one, while it is being
// deleted; the laboratory ended with "ip link del: RTNETLINK answers: No such device".
func TestADeviceThatIsGoneIsNoError(t *testing.T) {
	for text, want := range map[string]bool{
		"exit status 1: Cannot find device \"nl1v2\"":               true,
		"exit status 2: RTNETLINK answers: No such device":          true,
		"exit status 2: RTNETLINK answers: Operation not permitted": false,
	} {
		if got := absent(errors.New(text)); got != want {
			t.Errorf("%s: gone %t", text, got)
		}
	}
	if absent(nil) {
		t.Error("a device that was deleted was not gone")
	}
}
