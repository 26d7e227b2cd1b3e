package lab

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

// answering is a server that answers with a status and counts what it has done.
type answering struct {
	status   int
	replayed bool
	done     atomic.Int64
}

func (a *answering) RoundTrip(req *http.Request) (*http.Response, error) {
	if err := req.Context().Err(); err != nil {
		return nil, err
	}
	a.done.Add(1)
	header := http.Header{}
	if a.replayed {
		header.Set("Idempotent-Replayed", "true")
	}
	return &http.Response{StatusCode: a.status, Header: header, Body: http.NoBody}, nil
}

func TestALateLinkHoldsBackTheAnswersToNewChargesAlone(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		status   int
		replayed bool
		late     int64
		want     []string // of three sends
	}{
		"two late":         {status: 201, late: 2, want: []string{"time-out", "time-out", "201"}},
		"none late":        {status: 201, want: []string{"201", "201", "201"}},
		"replays are not":  {status: 201, replayed: true, late: 2, want: []string{"201 replayed", "201 replayed", "201 replayed"}},
		"refusals are not": {status: 409, late: 2, want: []string{"409", "409", "409"}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				server := &answering{status: tt.status, replayed: tt.replayed}
				link := &lateLink{pool: server, by: 300 * time.Millisecond}
				link.left.Store(tt.late)
				p := &poster{way: link, url: "http://server/payments"}
				var got []string
				for range tt.want {
					r, err := p.postWithin(t.Context(), 150*time.Millisecond, "key", purchaseBody("order", 1))
					if err != nil {
						t.Fatal(err)
					}
					got = append(got, r.String())
				}
				link.underWay.Wait()
				if diff := cmp.Diff(tt.want, got); diff != "" {
					t.Error(diff)
				}
				if n := server.done.Load(); n != int64(len(tt.want)) {
					t.Errorf("the server did %d of %d requests to the end", n, len(tt.want))
				}
			})
		})
	}
}

func TestAPosterTellsATimeOutFromACancelledClient(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	p := &poster{way: &answering{status: 201}, url: "http://server/payments"}
	if r, err := p.post(ctx, "key", "{}"); err == nil {
		t.Errorf("a cancelled client was told %s, want its error", r)
	}
}

func TestAPosterSendsItsFieldsAndNothingByItself(t *testing.T) {
	t.Parallel()
	var sent *http.Request
	way := roundTripper(func(req *http.Request) (*http.Response, error) {
		sent = req
		return &http.Response{StatusCode: 201, Body: http.NoBody}, nil
	})
	p := &poster{way: way, url: "http://server/payments", apiKey: "sk_1"}
	if _, err := p.post(t.Context(), "k1", purchaseBody("o-1", 7), "Prefer: wait=5"); err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for name := range sent.Header {
		got[name] = sent.Header.Get(name)
	}
	want := map[string]string{"Authorization": "Bearer sk_1", "Content-Type": "application/json", "Idempotency-Key": "k1", "Prefer": "wait=5"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if sent.GetBody != nil {
		t.Error("net/http may send the request again by itself")
	}
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }

func TestARepliesPaymentIsRead(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		r    reply
		want string
	}{
		{reply{status: 201, body: []byte(`{"id":"pay_1","amount":"7"}`)}, "pay_1 <nil>"},
		{reply{status: 409, body: []byte(`{"id":"no payment"}`)}, " <nil>"},
	} {
		id, err := tt.r.paymentID()
		if got := fmt.Sprint(id, " ", err); got != tt.want {
			t.Errorf("%s: %q, want %q", tt.r, got, tt.want)
		}
	}
	if _, err := (reply{status: 201, body: []byte("<html>")}).paymentID(); err == nil || !strings.Contains(err.Error(), "<html>") {
		t.Errorf("got %v, want an error that shows the body", err)
	}
}
