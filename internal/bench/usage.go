package bench

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"time"
)

// The processes whose use of the CPU is told, as they are named in reports.
const (
	procServer = "server"
	procPSP    = "psp"
	procMySQL  = "mysqld"
	procLoad   = "load" // this process
)

// processes are the ids of those that a measurement involves, by name; 0 is one that is not on this machine.
type processes map[string]int

// tick is the unit of /proc/PID/stat, USER_HZ: 100 a second on every architecture that Go knows.
const tick = 10 * time.Millisecond

// cpuTimes reads how much CPU time each process has used so far. A system without /proc, and a process that is elsewhere, have no
// entry.
func (p processes) cpuTimes() (map[string]time.Duration, error) {
	used := map[string]time.Duration{}
	for name, pid := range p {
		if pid == 0 {
			continue
		}
		text, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("CPU time of %s: %w", name, err)
		}
		if used[name], err = parseStat(text); err != nil {
			return nil, fmt.Errorf("CPU time of %s: %w", name, err)
		}
	}
	return used, nil
}

var errProc = errors.New("/proc is not as proc(5) has it")

// parseStat reads user and system time, fields 14 and 15 of proc_pid_stat(5). Field 2, in parentheses, may hold anything.
func parseStat(text []byte) (time.Duration, error) {
	const utime, stime = 14 - 3, 15 - 3 // counted from field 3, the first behind the parentheses
	fields := bytes.Fields(text[bytes.LastIndexByte(text, ')')+1:])
	if len(fields) <= stime {
		return 0, errProc
	}
	var ticks int64
	for _, i := range []int{utime, stime} {
		n, err := strconv.ParseInt(string(fields[i]), 10, 64)
		if err != nil {
			return 0, fmt.Errorf("%w: %w", errProc, err)
		}
		ticks += n
	}
	return time.Duration(ticks) * tick, nil
}

// during measures the CPU time that each process uses in the window, which lies ahead.
func (p processes) during(ctx context.Context, w window) (map[string]time.Duration, error) {
	if err := sleepUntil(ctx, w.from); err != nil {
		return nil, err
	}
	before, err := p.cpuTimes()
	if err != nil {
		return nil, err
	}
	if err := sleepUntil(ctx, w.to); err != nil {
		return nil, err
	}
	after, err := p.cpuTimes()
	if err != nil {
		return nil, err
	}
	used := map[string]time.Duration{}
	for name, t := range after {
		used[name] = t - before[name]
	}
	return used, nil
}

// peakMemory is the most memory that a process has had in RAM so far, in bytes (VmHWM of proc_pid_status(5)); 0 where there is no
// /proc.
func peakMemory(pid int) (int64, error) {
	text, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "status"))
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("memory: %w", err)
	}
	_, rest, ok := bytes.Cut(text, []byte("\nVmHWM:"))
	fields := bytes.Fields(rest)
	if !ok || len(fields) < 2 || string(fields[1]) != "kB" {
		return 0, fmt.Errorf("memory: %w", errProc)
	}
	kib, err := strconv.ParseInt(string(fields[0]), 10, 64)
	if err != nil {
		return 0, fmt.Errorf("memory: %w: %w", errProc, err)
	}
	return kib << 10, nil
}
