package server_test

import (
	"database/sql"
	"encoding/base64"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	paymentsv1 "chargeonce/api/payments/v1"
	"chargeonce/internal/mysql"
	"chargeonce/internal/payment"
)

// insert writes a payment as a finish would, and returns its id.
func (e *env) insert(userID int64, orderID string) string {
	e.t.Helper()
	id := payment.NewID()
	now := time.Now().UTC()
	if _, err := e.db.ExecContext(e.t.Context(), `INSERT INTO payments
		(user_id, id, order_id, amount, currency, status, charge_id, created_at, updated_at) VALUES (?, ?, ?, 100, 'EUR', 'succeeded', ?, ?, ?)`,
		userID, id, orderID, unique("ch"), now, now); err != nil {
		e.t.Fatal(err)
	}
	return id
}

// page lists over gRPC.
func (e *env) page(req *paymentsv1.ListPaymentsRequest) (ids []string, next string) {
	e.t.Helper()
	resp := e.list(req)
	for _, p := range resp.GetPayments() {
		ids = append(ids, p.GetId())
	}
	return ids, resp.GetNextPageToken()
}

func (e *env) list(req *paymentsv1.ListPaymentsRequest) *paymentsv1.ListPaymentsResponse {
	e.t.Helper()
	resp, err := e.client.ListPayments(e.authorized(), req)
	if err != nil {
		e.t.Fatal(err)
	}
	return resp
}

func TestListPaymentsPagesNewestFirstAndStaysStable(t *testing.T) {
	t.Parallel()
	e := newEnv(t, options{})
	var all []string
	for i := range 7 {
		all = append(all, e.insert(e.user, fmt.Sprintf("o-%d", i%2)))
		e.insert(e.user+1, "o-0")
	}
	slices.Reverse(all)

	var got []string
	req := &paymentsv1.ListPaymentsRequest{PageSize: 3}
	for range 3 {
		ids, next := e.page(req)
		got = append(got, ids...)
		req.PageToken = next
		e.insert(e.user, "o-new") // arrives between two pages
	}
	if diff := cmp.Diff(all, got); diff != "" {
		t.Errorf("payments (-want +got):\n%s", diff)
	}
	if req.GetPageToken() != "" {
		t.Error("the last page has a next one")
	}

	odd, next := e.page(&paymentsv1.ListPaymentsRequest{OrderId: "o-1"})
	if diff := cmp.Diff([]string{all[1], all[3], all[5]}, odd); diff != "" || next != "" {
		t.Errorf("payments of o-1 (-want +got):\n%s, next %q", diff, next)
	}
	if none, next := e.page(&paymentsv1.ListPaymentsRequest{OrderId: "o-9"}); len(none) != 0 || next != "" {
		t.Errorf("payments of an order that there is not: %v, next %q", none, next)
	}
	got3 := e.send(overREST, sending{message: &paymentsv1.ListPaymentsRequest{OrderId: "o-9"}})
	if got3.Body != `{"payments":[],"next_page_token":""}` {
		t.Errorf("an empty list over REST: %s", got3.Body)
	}
}

func TestListPaymentsCapsThePage(t *testing.T) {
	t.Parallel()
	e := newEnv(t, options{})
	for range 101 {
		e.insert(e.user, "o")
	}
	for size, want := range map[int32]int{0: 50, 1: 1, 100: 100, 1000: 100} {
		if ids, next := e.page(&paymentsv1.ListPaymentsRequest{PageSize: size}); len(ids) != want || next == "" {
			t.Errorf("page_size %d: %d payments, next %q; want %d and a next page", size, len(ids), next, want)
		}
	}
}

func TestAPageTokenIsGoodForItsOwnListAlone(t *testing.T) {
	t.Parallel()
	e := newEnv(t, options{})
	other := newEnv(t, options{db: e.db, sim: e.sim, user: 43})
	for range 3 {
		e.insert(e.user, "o-1")
		e.insert(other.user, "o-1")
	}
	_, token := e.page(&paymentsv1.ListPaymentsRequest{PageSize: 1, OrderId: "o-1"})
	raw, err := base64.RawURLEncoding.DecodeString(token)
	if err != nil {
		t.Fatal(err)
	}
	tampered := slices.Clone(raw)
	tampered[len(tampered)-1] ^= 1
	tests := []struct {
		name string
		env  *env
		req  *paymentsv1.ListPaymentsRequest
		good bool
	}{
		{"as it came", e, &paymentsv1.ListPaymentsRequest{OrderId: "o-1", PageToken: token}, true},
		{"with another page size", e, &paymentsv1.ListPaymentsRequest{OrderId: "o-1", PageToken: token, PageSize: 2}, true},
		{"without the filter", e, &paymentsv1.ListPaymentsRequest{PageToken: token}, false},
		{"with another filter", e, &paymentsv1.ListPaymentsRequest{OrderId: "o-2", PageToken: token}, false},
		{"by another user", other, &paymentsv1.ListPaymentsRequest{OrderId: "o-1", PageToken: token}, false},
		{"tampered with", e, &paymentsv1.ListPaymentsRequest{OrderId: "o-1", PageToken: base64.RawURLEncoding.EncodeToString(tampered)}, false},
		{"cut", e, &paymentsv1.ListPaymentsRequest{OrderId: "o-1", PageToken: token[:20]}, false},
		{"an id without a MAC", e, &paymentsv1.ListPaymentsRequest{OrderId: "o-1", PageToken: base64.RawURLEncoding.EncodeToString(raw[16:])}, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			for _, f := range faces {
				got := tt.env.in(t).send(f, sending{message: tt.req})
				if tt.good != (got.Reason == "") || !tt.good && got.Reason != "REQUEST_INVALID" {
					t.Errorf("%s: %+v", f, got)
				}
			}
		})
	}
	t.Run("another server with the same secret takes it", func(t *testing.T) {
		t.Parallel()
		twin := newEnv(t, options{db: e.db, sim: e.sim})
		if ids, _ := twin.page(&paymentsv1.ListPaymentsRequest{OrderId: "o-1", PageToken: token}); len(ids) != 2 {
			t.Errorf("%d payments, want the other 2", len(ids))
		}
	})
}

// A page must cost a page: both lists walk an index in its order, and sort nothing, however many payments the user has. What the
// server did is read from its counters, so it is the statement in use that is held to it.
func TestAPageOfPaymentsReadsNoMoreThanThePageAndSortsNothing(t *testing.T) {
	t.Parallel()
	e := newEnv(t, options{})
	for i := range 400 {
		e.insert(e.user, fmt.Sprintf("o-%d", i%4))
	}
	for u := range int64(50) {
		e.insert(100+u, "o-1")
	}
	if _, err := e.db.ExecContext(t.Context(), `ANALYZE TABLE payments`); err != nil {
		t.Fatal(err)
	}
	db, err := mysql.Open(e.db.DSN, mysql.Options{MaxOpen: 1}) // one connection: the counters are a session's
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	}()
	counters := func() map[string]int { return sessionCounters(t, db) }
	const limit = 51
	for _, order := range []string{"", "o-1"} {
		before := counters()
		found, err := payment.List(t.Context(), db, e.user, order, "", limit)
		if err != nil || len(found) != limit {
			t.Fatalf("order %q: %d payments, %v", order, len(found), err)
		}
		after := counters()
		sorted, read := 0, 0
		for name := range after {
			if strings.HasPrefix(name, "Sort_") {
				sorted += after[name] - before[name]
			} else {
				read += after[name] - before[name]
			}
		}
		if sorted != 0 || read > limit {
			t.Errorf("order %q: %d rows read for a page of %d, sort counters %d; before %v, after %v", order, read, limit, sorted, before, after)
		}
	}
}

// sessionCounters returns what the server counts of the rows that db's one connection has read and sorted.
func sessionCounters(t *testing.T, db *sql.DB) map[string]int {
	t.Helper()
	rows, err := db.QueryContext(t.Context(), `SHOW SESSION STATUS WHERE Variable_name IN
		('Sort_range', 'Sort_scan', 'Sort_rows', 'Handler_read_next', 'Handler_read_prev', 'Handler_read_rnd')`)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := rows.Close(); err != nil {
			t.Error(err)
		}
	}()
	got := map[string]int{}
	for rows.Next() {
		var name string
		var n int
		if err := rows.Scan(&name, &n); err != nil {
			t.Fatal(err)
		}
		got[name] = n
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return got
}
