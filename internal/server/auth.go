package server

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"maps"
	"strings"
	"sync"
	"time"
)

// How long the owner of a key is remembered. A revoked key must stop within 10 s, and a key just made should work soon.
const (
	keyCacheHit  = 5 * time.Second
	keyCacheMiss = time.Second
	keyCacheSize = 10_000
)

// authenticator tells who is calling. What it remembers, and compares, are hashes: no key in clear outlives its request.
type authenticator struct {
	lookUp func(context.Context, [sha256.Size]byte) (int64, bool, error)
	now    func() time.Time

	mu    sync.Mutex
	known map[[sha256.Size]byte]owner
}

type owner struct {
	userID int64
	ok     bool
	until  time.Time
}

// caller is who sends a request: a user, by one of their API keys.
type caller struct {
	userID  int64
	keyHash [sha256.Size]byte
}

func newAuthenticator(db *sql.DB) *authenticator {
	return &authenticator{
		lookUp: func(ctx context.Context, hash [sha256.Size]byte) (int64, bool, error) { return keyOwner(ctx, db, hash) },
		now:    time.Now,
		known:  map[[sha256.Size]byte]owner{},
	}
}

// authenticate returns the caller whose API key the values of the Authorization header (or metadata) carry; errNoAuth when they carry
// none that is good; or the database's error.
func (a *authenticator) authenticate(ctx context.Context, values []string) (caller, error) {
	key, ok := bearer(values)
	if !ok {
		return caller{}, errNoAuth
	}
	hash := sha256.Sum256([]byte(key))
	if o, ok := a.remembered(hash); ok {
		return o.verdict(hash)
	}
	userID, ok, err := a.lookUp(ctx, hash)
	if err != nil {
		return caller{}, err
	}
	o := owner{userID: userID, ok: ok, until: a.now().Add(keyCacheMiss)}
	if ok {
		o.until = a.now().Add(keyCacheHit)
	}
	a.remember(hash, o)
	return o.verdict(hash)
}

func (o owner) verdict(keyHash [sha256.Size]byte) (caller, error) {
	if !o.ok {
		return caller{}, errNoAuth
	}
	return caller{userID: o.userID, keyHash: keyHash}, nil
}

func (a *authenticator) remembered(hash [sha256.Size]byte) (owner, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	o, ok := a.known[hash]
	return o, ok && a.now().Before(o.until)
}

func (a *authenticator) remember(hash [sha256.Size]byte, o owner) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.known) >= keyCacheSize {
		now := a.now()
		maps.DeleteFunc(a.known, func(_ [sha256.Size]byte, o owner) bool { return !now.Before(o.until) })
	}
	if len(a.known) >= keyCacheSize {
		clear(a.known) // somebody tries keys by the thousand; the good ones come back with their next request
	}
	a.known[hash] = o
}

// bearer takes the key out of "Bearer sk_…" (RFC 6750 §2.1; the scheme's case is free). What can't be one of our keys is not
// looked up.
func bearer(values []string) (string, bool) {
	if len(values) != 1 {
		return "", false
	}
	scheme, key, _ := strings.Cut(values[0], " ")
	key = strings.TrimLeft(key, " ")
	if !strings.EqualFold(scheme, "Bearer") || !strings.HasPrefix(key, "sk_") || len(key) > 128 {
		return "", false
	}
	return key, true
}
