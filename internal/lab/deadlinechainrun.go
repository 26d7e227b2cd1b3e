package lab

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
)

// chainRun is what came of one way to pass deadlines. Slices are of [workSlice].
type chainRun struct {
	passing       passing
	during, after int64         // slices of work while the clients waited, and when they had left
	last          int64         // how often the last service began
	told          time.Duration // when half of the clients knew that there is no answer
}

// chains sends the same requests to a chain in each of three ways.
func (n deadlineNumbers) chains(ctx context.Context, r *Report) error {
	var runs []chainRun
	for _, p := range []passing{ownTimeout, hangUp, deadlineOn} {
		run, err := n.chain(ctx, p)
		if err != nil {
			return fmt.Errorf("%s: %w", p, err)
		}
		runs = append(runs, run)
	}
	n.reportChains(r, runs)
	return nil
}

func (n deadlineNumbers) chain(ctx context.Context, p passing) (chainRun, error) {
	ledger := &workLedger{slices: make([][]time.Time, n.Requests)}
	left, took := make([]time.Time, n.Requests), make([]time.Duration, n.Requests)
	service := func(next healthv1.HealthClient) *chainService {
		return &chainService{passing: p, work: n.Work, ledger: ledger, next: next}
	}
	err := onChain(ctx, n.Services, service, nil, func(first healthv1.HealthClient) error {
		var clients sync.WaitGroup
		answered := make([]bool, n.Requests)
		for i := range n.Requests {
			clients.Go(func() {
				ctx, cancel := context.WithTimeout(ctx, n.Patience)
				defer cancel()
				began := time.Now()
				_, err := first.Check(ctx, &healthv1.HealthCheckRequest{Service: strconv.Itoa(i)})
				answered[i], left[i], took[i] = err == nil, time.Now(), time.Since(began)
			})
		}
		clients.Wait()
		for _, a := range answered {
			if a {
				return errors.New("a client was answered: want less patience than the work of all services takes")
			}
		}
		return nil
	})
	out := chainRun{passing: p, last: ledger.last, told: quantile(took, .5)}
	for i, slices := range ledger.slices {
		for _, at := range slices {
			if at.After(left[i]) {
				out.after++
			} else {
				out.during++
			}
		}
	}
	return out, err
}

func (n deadlineNumbers) reportChains(r *Report, runs []chainRun) {
	t := Table{Title: fmt.Sprintf("%d services that work %s each, and %d clients that wait %s", n.Services, ms(n.Work), n.Requests, ms(n.Patience)),
		Columns: []string{"what is passed on", "work per request", "of it after the client left", "the last service began", "the client knows after (p50)"}}
	p := Plot{Title: "Work for nothing, per request", Y: "milliseconds", Series: []Series{{Name: "while the client waits"}, {Name: "after it left"}}}
	perRequest := func(slices int64) time.Duration { return time.Duration(slices) * workSlice / time.Duration(n.Requests) }
	for _, c := range runs {
		t.add(string(c.passing), ms(perRequest(c.during+c.after)), ms(perRequest(c.after)), fmt.Sprintf("%d times", c.last), ms(c.told))
		p.Categories = append(p.Categories, string(c.passing))
		for i, slices := range []int64{c.during, c.after} {
			p.Series[i].Y = append(p.Series[i].Y, float64(perRequest(slices).Microseconds())/1000)
		}
	}
	r.Tables, r.Plots = append(r.Tables, t), append(r.Plots, p)
	without, cut, passed := runs[0], runs[1], runs[2]
	r.equal("deadline passed on: requests for which the last service began", 0, passed.last)
	r.atMost("deadline passed on: slices of work after the client left, fewer than without", without.after-1, passed.after)
	r.atMost("deadline passed on: slices of work, fewer than without", without.during+without.after-1, passed.during+passed.after)
	r.atMost("cut at the hang-up: slices of work after the client left, fewer than without", without.after-1, cut.after)
}

// Validate wants work that the client cannot wait for.
func (n deadlineNumbers) Validate() error {
	if n.Patience >= time.Duration(n.Services)*n.Work {
		return fmt.Errorf("patience of %v: want less than the %d services work together, %v", n.Patience, n.Services, time.Duration(n.Services)*n.Work)
	}
	if n.Deadline >= n.PSP {
		return fmt.Errorf("a deadline of %v: want less than the PSP takes, %v", n.Deadline, n.PSP)
	}
	return nil
}
