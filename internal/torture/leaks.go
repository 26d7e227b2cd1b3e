package torture

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strconv"
	"time"
)

// leakBound is how long what is left of the clients may take to go.
const leakBound = 15 * time.Second

// goroutineSlack is by how many goroutines an idle server may differ from what it was before the attack: two for every connection
// to the PSP and one for every one to MySQL, of which there are as many as the load needed.
const goroutineSlack = 2*pspSlots + 2*mysqlMax

// fetch reads a page of an admin port.
func fetch(ctx context.Context, url string) (body []byte, err error) {
	ctx, cancel := context.WithTimeout(ctx, adminTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	resp, err := adminClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, resp.Body.Close()) }()
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s: %s", url, resp.Status)
	}
	return io.ReadAll(resp.Body)
}

// adminClient keeps no connections: they would be counted at the other end.
var adminClient = &http.Client{Timeout: adminTimeout, Transport: &http.Transport{DisableKeepAlives: true}}

var goroutineTotal = regexp.MustCompile(`^goroutine profile: total (\d+)`)

// goroutines counts those of a server.
func (s *server) goroutines(ctx context.Context) (int, error) {
	body, err := fetch(ctx, "http://"+s.rig.Admin+"/debug/pprof/goroutine?debug=1")
	if err != nil {
		return 0, err
	}
	found := goroutineTotal.FindSubmatch(body)
	if found == nil {
		return 0, fmt.Errorf("torture: no goroutine profile: %.100q", body)
	}
	return strconv.Atoi(string(found[1]))
}

// baseline is what was open before the attack.
type baseline struct {
	goroutines map[string]int
}

func takeBaseline(ctx context.Context, s *site) (baseline, error) {
	b := baseline{goroutines: map[string]int{}}
	for _, srv := range s.servers {
		n, err := srv.goroutines(ctx)
		if err != nil {
			return b, err
		}
		b.goroutines[srv.member.name] = n
	}
	return b, nil
}

// checkGoroutines waits until every server is back near its baseline, when its clients are gone.
func (b baseline) checkGoroutines(ctx context.Context, s *site) (now map[string]int, found []violation) {
	ctx, cancel := context.WithTimeout(ctx, leakBound)
	defer cancel()
	now = map[string]int{}
	for _, srv := range s.servers {
		for {
			n, err := srv.goroutines(ctx)
			most := b.goroutines[srv.member.name] + goroutineSlack
			now[srv.member.name] = n
			if err == nil && n <= most {
				break
			}
			if pause(ctx, 200*time.Millisecond) != nil {
				found = append(found, violation{text: fmt.Sprintf("server %s: %d goroutines when idle, %d before the attack (at most %d expected; %v)",
					srv.member.name, n, b.goroutines[srv.member.name], most, err)})
				break
			}
		}
	}
	return now, found
}

// checkConnections waits until MySQL has nobody's connections but the run's own, when all processes have ended.
func checkConnections(ctx context.Context, s *site) (found []violation) {
	ctx, cancel := context.WithTimeout(ctx, leakBound)
	defer cancel()
	for {
		var left int
		err := s.db.QueryRowContext(ctx, `SELECT COUNT(*) FROM information_schema.processlist WHERE user LIKE ?`, s.accounts+"-%").Scan(&left)
		if err == nil && left == 0 {
			return nil
		}
		if pause(ctx, 200*time.Millisecond) != nil {
			return []violation{{text: fmt.Sprintf("%d connections to MySQL are open after all processes have ended (%v)", left, err)}}
		}
	}
}
