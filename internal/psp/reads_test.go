package psp

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestReadsAreTriedAgainAndThenSayWhatKeptThem(t *testing.T) {
	t.Parallel()
	get := func(ctx context.Context, c *Client) error { _, err := c.Get(ctx, "ch_1"); return err }
	statement := func(ctx context.Context, c *Client) error { _, err := c.Statement(ctx, time.Time{}, "", 0); return err }
	page := respond(200, `{"data": [], "next_cursor": ""}`)
	for name, tc := range map[string]struct {
		read    func(context.Context, *Client) error
		steps   []step
		notSent NotSentReason
		after   time.Duration
		ok      bool
		n       int
	}{
		"get after a fault":          {get, []step{unavailable, respond(200, chargeJSON("k", "pending"))}, "", 0, true, 2},
		"statement after a fault":    {statement, []step{drop, page}, "", 0, true, 2},
		"get, unavailable":           {get, []step{respond(503, "", "Retry-After", "2")}, "", 2 * time.Second, false, 4},
		"get, no connection":         {get, []step{refuse}, ConnectFailed, 0, false, 4},
		"get, bad credential":        {get, []step{respond(401, "")}, "", 0, false, 1},
		"get, another charge":        {get, []step{respond(200, chargeJSON("k", "pending", "id", `"ch_2"`))}, "", 0, false, 1},
		"statement, a hole in it":    {statement, []step{respond(200, `{"data": [null]}`)}, "", 0, false, 1},
		"statement, 404 of a proxy":  {statement, []step{respond(404, "")}, "", 0, false, 1},
		"get, 404 of nobody's words": {get, []step{respond(404, errorJSON("not_found", "", ""))}, "", 0, false, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				psp := newFakePSP(tc.steps...)
				err := tc.read(t.Context(), testClient(t, Config{}, psp, noJitter))
				if n := len(psp.requests()); n != tc.n {
					t.Errorf("%d requests, want %d", n, tc.n)
				}
				if tc.ok {
					if err != nil {
						t.Error(err)
					}
					return
				}
				var unavailable *UnavailableError
				if !errors.As(err, &unavailable) || unavailable.NotSent != tc.notSent || unavailable.RetryAfter != tc.after || unavailable.Err == nil || !errors.Is(err, unavailable.Err) || !strings.HasPrefix(err.Error(), "psp unavailable: ") {
					t.Errorf("got %#v", err)
				}
			})
		})
	}
}

func TestReadsRefuseWhatCannotBeAsked(t *testing.T) {
	t.Parallel()
	psp := newFakePSP(unavailable)
	c := testClient(t, Config{}, psp, noJitter)
	for _, id := range []string{"", "a b", "a\n"} {
		if _, err := c.Get(t.Context(), id); !errors.Is(err, errInvalidRequest) {
			t.Errorf("id %q: got %v", id, err)
		}
	}
	for _, limit := range []int{-1, 1001} {
		if _, err := c.Statement(t.Context(), time.Time{}, "", limit); !errors.Is(err, errInvalidRequest) {
			t.Errorf("limit %d: got %v", limit, err)
		}
	}
	if got := psp.requests(); len(got) != 0 {
		t.Errorf("sent %v", got)
	}
}

// TestAFullPageIsReadWhole: the bound on bodies must leave room for 1000 charges.
func TestAFullPageIsReadWhole(t *testing.T) {
	t.Parallel()
	charges := make([]string, maxPage)
	for i := range charges {
		charges[i] = chargeJSON("k", "succeeded", "id", fmt.Sprintf(`"ch_%d"`, i), "description", `"`+strings.Repeat("d", 300)+`"`)
	}
	body := `{"data": [` + strings.Join(charges, ",") + `], "next_cursor": "c"}`
	page, err := testClient(t, Config{}, newFakePSP(respond(200, body)), noJitter).Statement(t.Context(), time.Time{}, "", maxPage)
	if err != nil || len(page.Charges) != maxPage || page.NextCursor != "c" || page.Charges[999].ID != "ch_999" {
		t.Errorf("%d charges, cursor %q: %v", len(page.Charges), page.NextCursor, err)
	}
}

func TestParseCharge(t *testing.T) {
	t.Parallel()
	want := Charge{ID: "ch_1", IdempotencyKey: "k", Amount: 1999, Currency: "EUR", Status: "refunded",
		Metadata: testRequest.Metadata, CreatedAt: time.Date(2026, 11, 30, 6, 0, 0, 123e6, time.UTC)}
	got, err := ParseCharge([]byte(chargeJSON("k", "refunded")))
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("%v; want (-), got (+):\n%s", err, diff)
	}
	for metadata, user := range map[string]int64{
		"null": 0, "{}": 0, `{"user_id": ""}`: 0, `{"user_id": null}`: 0, `{"user_id": "42"}`: 42, `{"user_id": "9223372036854775807"}`: 1<<63 - 1,
		`{"user_id": "alice"}`: ForeignUser, `{"user_id": "042"}`: ForeignUser, `{"user_id": "+42"}`: ForeignUser, `{"user_id": "0"}`: ForeignUser,
		`{"user_id": "-1"}`: ForeignUser, `{"user_id": "9223372036854775808"}`: ForeignUser,
	} {
		ch, err := ParseCharge([]byte(chargeJSON("k", "pending", "metadata", metadata)))
		if err != nil || ch.Metadata.UserID != user {
			t.Errorf("metadata %s: got user %d, %v", metadata, ch.Metadata.UserID, err)
		}
	}
	for name, raw := range map[string]string{
		"nothing": "", "null": "null", "an array": "[]", "cut": `{"id": "ch_1"`, "two": "{}{}", "no id": chargeJSON("k", "pending", "id", "null"),
		"an id that no row can hold": chargeJSON("k", "pending", "id", `"`+strings.Repeat("x", 256)+`"`), "an id beyond ASCII": chargeJSON("k", "pending", "id", `"ché"`),
		"no currency": chargeJSON("k", "pending", "currency", `""`), "no amount": chargeJSON("k", "pending", "amount", "null"),
		"amount with exponent": chargeJSON("k", "pending", "amount", "2e3"), "amount too large": chargeJSON("k", "pending", "amount", "9223372036854775808"),
		"unknown status": chargeJSON("k", "disputed"), "status in capitals": chargeJSON("k", "PENDING"),
		"user as number": chargeJSON("k", "pending", "metadata", `{"user_id": 42}`), "no time": chargeJSON("k", "pending", "created_at", `"yesterday"`),
		"id twice": chargeJSON("k", "pending", "id", `"ch_1", "id": "ch_2"`),
	} {
		if ch, err := ParseCharge([]byte(raw)); err == nil {
			t.Errorf("%s: got %+v", name, ch)
		}
	}
}
