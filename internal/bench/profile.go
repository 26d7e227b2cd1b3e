package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// profile takes a CPU profile of the server in the window, and what it allocated until then, if this measurement is one that is to be
// profiled. The function that it returns waits until the files are written. Profiling costs the server a few per cent.
func (r *run) profile(ctx context.Context, t target, at Where, w window) (wait func() error) {
	v, ok := t.(*service)
	if !ok || r.site.o.ProfileDir == "" || at.InFlight != r.site.o.ProfileAt {
		return func() error { return nil }
	}
	ended := make(chan error, 1)
	go func() {
		err := sleepUntil(ctx, w.from)
		for _, p := range []struct{ kind, path string }{
			{"cpu", fmt.Sprintf("profile?seconds=%d", max(1, int(w.length().Seconds())))},
			{"allocs", "allocs"},
		} {
			if err == nil {
				file := filepath.Join(r.site.o.ProfileDir, fileName(at)+"."+p.kind+".pprof")
				err = download(ctx, "http://"+v.server.Admin+"/debug/pprof/"+p.path, file, w.length()+profilePatience)
			}
		}
		ended <- err
	}()
	return func() error { return <-ended }
}

// profilePatience is how much longer than the profile itself its answer may take.
const profilePatience = 30 * time.Second

// fileName names a measurement's files: "grpc-coalesced-128-psp80ms-webhooks".
func fileName(at Where) string {
	name := fmt.Sprintf("%s-%d", strings.ReplaceAll(strings.ToLower(at.form().String()), " ", "-"), at.InFlight)
	if at.PSPMillis > 0 {
		name += fmt.Sprintf("-psp%gms", at.PSPMillis)
	}
	if at.Webhooks {
		name += "-webhooks"
	}
	return name
}

func download(ctx context.Context, url, file string, timeout time.Duration) (err error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return fmt.Errorf("profile: %w", err)
	}
	transport := &http.Transport{DisableKeepAlives: true}
	resp, err := transport.RoundTrip(req)
	if err != nil {
		return fmt.Errorf("profile: %w", err)
	}
	defer func() { err = errors.Join(err, resp.Body.Close()) }()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("profile: %s: %s", url, resp.Status)
	}
	out, err := os.Create(file)
	if err != nil {
		return fmt.Errorf("profile: %w", err)
	}
	_, err = io.Copy(out, resp.Body)
	if err = errors.Join(err, out.Close()); err != nil {
		return fmt.Errorf("profile: %w", err)
	}
	return nil
}
