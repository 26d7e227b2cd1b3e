package gatewaysim

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

func openTestStore(t *testing.T, path string) *store {
	t.Helper()
	s, err := openStore(path, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.close(); err != nil && !errors.Is(err, os.ErrClosed) {
			t.Error(err)
		}
	})
	return s
}

// testCharge makes an entry like those of newCharge.
func testCharge(s *store, key string) *entry {
	seq, now := s.lastCharge()+1, s.now()
	return &entry{
		Seq: seq, Traceparent: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
		Charge: &Charge{ID: s.newID(chargePrefix, seq), IdempotencyKey: key, Amount: 5, Currency: "EUR", Status: StatusSucceeded,
			Metadata: map[string]string{"order_id": "<o-1>"}, CreatedAt: now, UpdatedAt: now},
		Event: &eventRecord{Seq: s.lastEvent() + 1, State: eventQueued, NextAt: now.Time},
	}
}

func mustUpdate(t *testing.T, s *store, make func() *entry) {
	t.Helper()
	if err := s.update(func() (*entry, error) { return make(), nil }); err != nil {
		t.Fatal(err)
	}
}

// closeAndRead closes s and returns its file's bytes.
func closeAndRead(t *testing.T, s *store) []byte {
	t.Helper()
	if err := s.close(); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(s.file.Name())
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// places is what an index holds, in a form that can be compared.
func places(x *index) map[string]any {
	return map[string]any{"keys": x.keys, "charges": x.charges, "events": x.events}
}

func samePlaces(t *testing.T, want, got *store) {
	t.Helper()
	exported := cmp.AllowUnexported(span{}, chargePlace{}, eventPlace{})
	if diff := cmp.Diff(places(&want.index), places(&got.index), exported, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("index (-want +got):\n%s", diff)
	}
	wantNext, wantOK := want.nextSettling()
	gotNext, gotOK := got.nextSettling()
	if wantOK != gotOK || wantNext.seq != gotNext.seq || !wantNext.due.Equal(gotNext.due) {
		t.Errorf("next to settle: %+v %v, want %+v %v", gotNext, gotOK, wantNext, wantOK)
	}
	if !want.lastCreated.Equal(got.lastCreated) || want.size != got.size || want.fileID != got.fileID {
		t.Errorf("newest charge %v, size %d, file %s; want %v, %d, %s",
			got.lastCreated, got.size, got.fileID, want.lastCreated, want.size, want.fileID)
	}
}

// The charge in a line is the answer: the same bytes as when it is encoded alone, and read back as it was.
func TestEntryHoldsTheChargeAsItIsAnswered(t *testing.T) {
	t.Parallel()
	s := openTestStore(t, filepath.Join(t.TempDir(), "psp.db"))
	made := testCharge(s, "k")
	made.Settles = &settlement{To: StatusFailed, At: made.Charge.CreatedAt.Time}
	for _, e := range []*entry{
		made,
		{Verdict: &verdictRecord{Key: "k", Result: ResultDeclined, Error: &Error{Code: "x"}, CreatedAt: made.Charge.CreatedAt.Time}},
		{Event: made.Event},
	} {
		line, err := e.encode()
		if err != nil {
			t.Fatal(err)
		}
		if n := bytes.IndexByte(line, '\n'); n != len(line)-1 {
			t.Errorf("%q has an end at %d of %d", line, n, len(line))
		}
		got, err := decode(line)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(*e, got, cmpopts.IgnoreUnexported(entry{})); diff != "" {
			t.Errorf("read back (-want +got):\n%s", diff)
		}
	}
	alone, err := answer{body: *made.Charge}.render()
	if err != nil || string(alone) != string(made.wire) {
		t.Errorf("the line has %s, alone it is %s (error %v)", made.wire, alone, err)
	}
}

// A process that is killed within a write leaves part of a line. Wherever it ends, the next process has the changes before it,
// nothing of the change that was cut, and writes on.
func TestFileCutAnywhereHoldsTheWholeLinesBefore(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := openTestStore(t, dir+"/whole")
	for i := range 2 {
		mustUpdate(t, s, func() *entry { return testCharge(s, fmt.Sprintf("k%d", i)) })
	}
	whole := closeAndRead(t, s)
	path := dir + "/cut"
	for n := range len(whole) + 1 {
		if err := os.WriteFile(path, whole[:n], 0o600); err != nil {
			t.Fatal(err)
		}
		cut := openTestStore(t, path)
		want := max(0, bytes.Count(whole[:n], []byte("\n"))-1)
		if got := cut.lastCharge(); got != uint64(want) {
			t.Fatalf("%d bytes hold %d charges, want %d", n, got, want)
		}
		for i := range 2 {
			if _, ok, err := cut.verdict(fmt.Sprintf("k%d", i)); ok != (i < want) || err != nil {
				t.Fatalf("%d bytes: key k%d is there: %v (error %v)", n, i, ok, err)
			}
		}
		mustUpdate(t, cut, func() *entry { return testCharge(cut, "another") })
		closeAndRead(t, cut)
		again := openTestStore(t, path)
		samePlaces(t, cut, again)
		closeAndRead(t, again)
	}
}

// A write that fails has left nothing, even if part of it is in the file, and the next change goes over that part.
func TestFailedWriteLeavesNothing(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "psp.db")
	s := openTestStore(t, path)
	mustUpdate(t, s, func() *entry { return testCharge(s, "before") })

	writable := s.file
	readOnly, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	s.file = readOnly
	err = s.update(func() (*entry, error) { return testCharge(s, "failed"), nil })
	s.file = writable
	if err = errors.Join(readOnly.Close(), err); err == nil {
		t.Fatal("a write to a file that is only read went well")
	}
	// A full disk takes the first part of a line, here a part that is longer than the next whole line.
	if _, err := s.file.WriteAt([]byte(`{"charge":{"id":"`+strings.Repeat("x", 4096)), s.size); err != nil {
		t.Fatal(err)
	}
	if _, ok, err := s.verdict("failed"); ok || err != nil || s.lastCharge() != 1 || s.lastEvent() != 1 {
		t.Errorf("the failed charge is there: %v (error %v); %d charges, %d events", ok, err, s.lastCharge(), s.lastEvent())
	}
	mustUpdate(t, s, func() *entry { return testCharge(s, "after") })
	if err := s.close(); err != nil {
		t.Fatal(err)
	}
	again := openTestStore(t, path)
	samePlaces(t, s, again)
	for key, want := range map[string]bool{"before": true, "failed": false, "after": true} {
		if _, ok, err := again.verdict(key); ok != want || err != nil {
			t.Errorf("key %s is there: %v, want %v (error %v)", key, ok, want, err)
		}
	}
	if text := closeAndRead(t, again); bytes.Contains(text, []byte("xxxx")) {
		t.Error("the part that was cut is still in the file")
	}
}

func TestForeignFileIsRefusedAndLeftAlone(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"lines of text":             "one\ntwo\n",
		"a text without a line end": "precious",
		"another version":           `{"format":"gateway-sim ledger 2","file_id":"abcdefgh"}` + "\n",
		"no file id":                headerStart + headerEnd,
		"a bad line in the middle":  string(headerOf("abcdefgh")) + "{\n" + `{"event":{"seq":1}}` + "\n",
		"a charge out of its place": string(headerOf("abcdefgh")) + `{"charge":{"id":"x"},"seq":2}` + "\n",
		"an event out of its place": string(headerOf("abcdefgh")) + `{"charge":{"id":"x"},"seq":1,"event":{"seq":2}}` + "\n",
		"an event without a charge": string(headerOf("abcdefgh")) + `{"event":{"seq":1}}` + "\n",
		"pending for ever":          string(headerOf("abcdefgh")) + `{"charge":{"status":"pending"},"seq":1}` + "\n",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "psp.db")
			if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			if s, err := openStore(path, 0); err == nil {
				t.Errorf("it opens (closing: %v)", s.close())
			}
			if got, err := os.ReadFile(path); err != nil || string(got) != text {
				t.Errorf("the file is now %q (error %v)", got, err)
			}
		})
	}
}

// What a new process reads from the file is what the one before it knew.
func TestReopenedFileIsIndexedAsItWas(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "psp.db")
	s := Start(t, Config{Path: path, PendingAfter: time.Hour})
	charge := func(key, token string) entry {
		t.Helper()
		c := &call{charge: chargeRequest{Amount: 7, Currency: "EUR", PaymentMethod: token}}
		c.key = key
		s.workCharge(c)
		e, _, err := s.store.verdict(key)
		if err != nil {
			t.Fatal(err)
		}
		return e
	}
	for i := range 50 {
		charge(fmt.Sprintf("paid %d", i), "tok_visa")
		charge(fmt.Sprintf("declined %d", i), "tok_declined")
		pending := charge(fmt.Sprintf("pending %d", i), "tok_pending")
		if i < 20 {
			mustUpdate(t, s.store, func() *entry { s.move(&pending, StatusCanceled); return &pending })
		}
	}
	c := &call{}
	c.key = "canceled"
	s.workCancel(c)
	for seq := range uint64(10) {
		if err := s.webhooks.record(delivery{seq: seq + 1}, result{status: 200 + 300*int(seq%2)}); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Stop(); err != nil {
		t.Fatal(err)
	}
	again := openTestStore(t, path)
	samePlaces(t, s.store, again)
	if charges, events, queued := again.lastCharge(), again.lastEvent(), len(again.queued()); charges != 100 || events != 70 || queued != 65 {
		t.Errorf("%d charges, %d events, %d of them queued; want 100, 70, 65", charges, events, queued)
	}
}
