package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

// verdict is what a caller was told of a key.
type verdict struct{ key, result, chargeID string }

// load sends charges, declines, rejections and technical cancels, many at a time, until the process is gone. It calls
// answered with the number of answers so far, and returns what was answered.
func (p *process) load(prefix string, answered func(int64)) []verdict {
	transport := &http.Transport{MaxIdleConnsPerHost: 32}
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport, Timeout: patience}
	var all sync.Mutex
	var told []verdict
	var next, answers atomic.Int64
	var callers sync.WaitGroup
	for range 16 {
		callers.Go(func() {
			for {
				key := fmt.Sprintf("%s-%d", prefix, next.Add(1))
				v, ok := p.tell(client, key, next.Load())
				if !ok {
					return
				}
				all.Lock()
				told = append(told, v)
				all.Unlock()
				answered(answers.Add(1))
			}
		})
	}
	callers.Wait()
	return told
}

// tell has one verdict made on key, of the kind that n picks; false says that no answer came.
func (p *process) tell(client *http.Client, key string, n int64) (v verdict, ok bool) {
	switch n % 6 {
	case 0:
		status, _ := p.charge(client, key, "tok_declined")
		return verdict{key: key, result: "declined"}, status == http.StatusPaymentRequired
	case 1:
		status, _ := p.charge(client, key, "tok_rejected")
		return verdict{key: key, result: "rejected"}, status == http.StatusUnprocessableEntity
	case 2:
		status, _ := p.do(p.t.Context(), client, "POST", "/charges/cancel", fmt.Sprintf(`{"idempotency_key":%q}`, key))
		return verdict{key: key, result: "canceled"}, status == http.StatusOK
	}
	status, answer := p.charge(client, key, "tok_visa")
	var charge struct{ ID string }
	if status != http.StatusCreated {
		return verdict{}, false
	}
	if err := json.Unmarshal([]byte(answer), &charge); err != nil {
		p.t.Errorf("%s: %v", answer, err)
	}
	return verdict{key: key, result: "charged", chargeID: charge.ID}, true
}

// After kill -9 in the middle of load, several times over: every answered verdict is there, no key has two charges, and
// every charge's event is delivered in the end.
func TestKilledProcessForgetsNothingItAnswered(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	accepted := map[string]bool{} // charges whose event was answered 200
	deliveries := 0
	receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var event struct {
			Data struct{ Charge struct{ ID string } }
		}
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return // the sender was killed
		}
		if err := json.Unmarshal(body, &event); err != nil {
			t.Errorf("%s: %v", body, err)
		}
		mu.Lock()
		defer mu.Unlock()
		if deliveries++; deliveries%3 == 0 {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		accepted[event.Data.Charge.ID] = true
	}))
	t.Cleanup(receiver.Close)
	args := []string{"--file", t.TempDir() + "/psp.db", "--webhook-url", receiver.URL, "--webhook-speedup", "100000"}

	var told []verdict
	for round := range 4 {
		p := run(t, nil, args...)
		told = append(told, p.load(fmt.Sprint(round), func(n int64) {
			if n == 200 {
				p.kill()
			}
		})...)
	}
	p := run(t, nil, args...)
	if len(told) < 4*200 {
		t.Fatalf("only %d verdicts were answered", len(told))
	}
	for _, v := range told {
		if result, id := p.result(v.key); result != v.result || id != v.chargeID {
			t.Errorf("key %s is %s %s, was answered %s %s", v.key, result, id, v.result, v.chargeID)
		}
	}

	_, lines := p.do(t.Context(), http.DefaultClient, "GET", "/admin/ledger", "")
	perKey := map[string]int{}
	var ids []string
	for line := range strings.Lines(lines) {
		var charge struct {
			ID  string
			Key string `json:"idempotency_key"`
		}
		if err := json.Unmarshal([]byte(line), &charge); err != nil {
			t.Fatal(err)
		}
		perKey[charge.Key]++
		ids = append(ids, charge.ID)
	}
	for key, n := range perKey {
		if n != 1 {
			t.Errorf("key %s has %d charges", key, n)
		}
	}
	eventually(t, "every charge's event is delivered", func() bool {
		mu.Lock()
		defer mu.Unlock()
		for _, id := range ids {
			if !accepted[id] {
				return false
			}
		}
		return true
	})
	t.Logf("%d verdicts answered, %d charges in the ledger, %d deliveries", len(told), len(ids), deliveries)
}

func TestPendingChargeSettlesInTheNextProcess(t *testing.T) {
	t.Parallel()
	file := t.TempDir() + "/psp.db"
	p := run(t, nil, "--file", file, "--pending-after", "500ms")
	if status, answer := p.charge(http.DefaultClient, "k", "tok_pending"); status != http.StatusCreated {
		t.Fatalf("answer %d %s", status, answer)
	}
	p.kill()
	p = run(t, nil, "--file", file)
	eventually(t, "the charge settles", func() bool {
		_, answer := p.do(t.Context(), http.DefaultClient, "GET", "/charges?idempotency_key=k", "")
		return strings.Contains(answer, `"status":"succeeded"`)
	})
}

// What was being worked on when the process was killed has left no trace, and its key is not held for ever.
func TestKillEndsWhatWasBeingWorkedOn(t *testing.T) {
	t.Parallel()
	file := t.TempDir() + "/psp.db"
	p := run(t, nil, "--file", file, "--latency", "fixed 1h")
	left := make(chan int, 1)
	go func() {
		status, _ := p.charge(http.DefaultClient, "k", "tok_visa")
		left <- status
	}()
	eventually(t, "the charge is worked on", func() bool { result, _ := p.result("k"); return result == "processing" })
	p.kill()
	if status := <-left; status != 0 {
		t.Errorf("the charge was answered %d", status)
	}
	p = run(t, nil, "--file", file)
	if result, _ := p.result("k"); result != "unknown" {
		t.Errorf("the key is %s", result)
	}
	if status, answer := p.charge(http.DefaultClient, "k", "tok_visa"); status != http.StatusCreated {
		t.Errorf("the key answers %d %s", status, answer)
	}
}
