package gatewaysim

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"syscall"
	"time"
)

// lockWait bounds the wait for another process to let go of the file, lockPoll is the longest wait between two looks.
const (
	lockWait = 2 * time.Second
	lockPoll = 50 * time.Millisecond
)

// lock takes f for this process alone. The kernel lets go of it when the process ends, however it ends.
func lock(f *os.File) error {
	for deadline := time.Now().Add(lockWait); ; <-time.After(rand.N(lockPoll)) {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			return nil
		}
		if retry := errors.Is(err, syscall.EWOULDBLOCK) || errors.Is(err, syscall.EINTR); !retry || time.Now().After(deadline) {
			return fmt.Errorf("is another process using it? %w", err)
		}
	}
}
