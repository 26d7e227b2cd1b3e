package server

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"testing"
	"time"
)

// fakeKeys is a table of API keys and a clock.
type fakeKeys struct {
	owners  map[[sha256.Size]byte]int64
	lookUps int
	now     time.Time
	err     error
}

func newFakeKeys() (*fakeKeys, *authenticator) {
	f := &fakeKeys{owners: map[[sha256.Size]byte]int64{}, now: time.Unix(1e9, 0)}
	a := newAuthenticator(nil)
	a.now = func() time.Time { return f.now }
	a.lookUp = func(_ context.Context, hash [sha256.Size]byte) (int64, bool, error) {
		f.lookUps++
		id, ok := f.owners[hash]
		return id, ok, f.err
	}
	return f, a
}

func TestARevokedKeyStopsWithinTenSeconds(t *testing.T) {
	t.Parallel()
	f, a := newFakeKeys()
	hash := sha256.Sum256([]byte("sk_test_1"))
	auth := []string{"Bearer sk_test_1"}
	f.owners[hash] = 7
	for range 3 {
		if who, err := a.authenticate(t.Context(), auth); who.userID != 7 || err != nil {
			t.Fatalf("%d, %v", who.userID, err)
		}
	}
	if f.lookUps != 1 {
		t.Errorf("%d look-ups for three requests, want 1", f.lookUps)
	}
	delete(f.owners, hash)
	f.now = f.now.Add(10 * time.Second)
	if _, err := a.authenticate(t.Context(), auth); !errors.Is(err, errNoAuth) {
		t.Errorf("10 s after it was revoked: %v", err)
	}
}

func TestANewKeyWorksSoonThoughItWasTriedBefore(t *testing.T) {
	t.Parallel()
	f, a := newFakeKeys()
	auth := []string{"Bearer sk_test_1"}
	for range 3 {
		if _, err := a.authenticate(t.Context(), auth); !errors.Is(err, errNoAuth) {
			t.Fatal(err)
		}
	}
	if f.lookUps != 1 {
		t.Errorf("%d look-ups for three requests with a wrong key, want 1", f.lookUps)
	}
	f.owners[sha256.Sum256([]byte("sk_test_1"))] = 7
	f.now = f.now.Add(time.Second)
	if who, err := a.authenticate(t.Context(), auth); who.userID != 7 || err != nil {
		t.Errorf("%d, %v", who.userID, err)
	}
}

func TestAFailedLookUpIsNotRemembered(t *testing.T) {
	t.Parallel()
	f, a := newFakeKeys()
	f.owners[sha256.Sum256([]byte("sk_test_1"))] = 7
	f.err = errors.New("database down")
	if _, err := a.authenticate(t.Context(), []string{"Bearer sk_test_1"}); !errors.Is(err, f.err) {
		t.Errorf("%v, want the database's error", err)
	}
	f.err = nil
	if who, err := a.authenticate(t.Context(), []string{"Bearer sk_test_1"}); who.userID != 7 || err != nil {
		t.Errorf("%d, %v", who.userID, err)
	}
}

func TestTriedKeysTakeBoundedMemory(t *testing.T) {
	t.Parallel()
	_, a := newFakeKeys()
	for i := range keyCacheSize + 100 {
		if _, err := a.authenticate(t.Context(), []string{fmt.Sprintf("Bearer sk_test_%d", i)}); !errors.Is(err, errNoAuth) {
			t.Fatal(err)
		}
	}
	if len(a.known) > keyCacheSize {
		t.Errorf("%d are remembered, want at most %d", len(a.known), keyCacheSize)
	}
}

func TestBearer(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		values []string
		want   string
	}{
		{nil, ""}, {[]string{""}, ""}, {[]string{"Bearer"}, ""}, {[]string{"Bearer "}, ""}, {[]string{"sk_test_1"}, ""},
		{[]string{"Basic sk_test_1"}, ""}, {[]string{"Bearer pk_1"}, ""}, {[]string{"Bearer sk_1", "Bearer sk_1"}, ""},
		{[]string{"Bearer sk_test_1"}, "sk_test_1"}, {[]string{"BEARER  sk_test_1"}, "sk_test_1"},
	} {
		got, ok := bearer(tt.values)
		if ok != (tt.want != "") || ok && got != tt.want {
			t.Errorf("bearer(%q) = %q, %t; want %q", tt.values, got, ok, tt.want)
		}
	}
}
