package server

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"database/sql"
	"encoding/base64"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"chargeonce/internal/telemetry"
)

// keyPrefix marks an API key of this service wherever one turns up, for people and for scanners of leaked secrets.
const keyPrefix = "sk_test_"

// hintLength is how much of a key may be shown, for a person to tell their keys apart: the prefix and 4 of 43 characters.
const hintLength = len(keyPrefix) + 4

// ErrNoAPIKey: the user has no such API key that is not revoked yet.
var ErrNoAPIKey = errors.New("no such API key")

// APIKey is what is kept of an API key: not the key.
type APIKey struct {
	UserID    int64
	ID        string
	Hint      string // the key's first characters
	CreatedAt time.Time
	RevokedAt time.Time // zero while the key is good
}

// CreateAPIKey makes a key of 256 random bits for the user and keeps its SHA-256. The key itself is returned this once.
func CreateAPIKey(ctx context.Context, db *sql.DB, userID int64) (APIKey, telemetry.Secret, error) {
	if userID <= 0 {
		return APIKey{}, "", fmt.Errorf("server: user %d: want a positive number", userID)
	}
	var bits [32]byte
	rand.Read(bits[:]) // never fails (crypto/rand)
	key := keyPrefix + base64.RawURLEncoding.EncodeToString(bits[:])
	id, err := uuid.NewV7()
	if err != nil {
		return APIKey{}, "", fmt.Errorf("server: API key id: %w", err)
	}
	k := APIKey{UserID: userID, ID: "key_" + id.String(), Hint: key[:hintLength], CreatedAt: time.Now().UTC().Truncate(time.Millisecond)}
	hash := sha256.Sum256([]byte(key))
	_, err = db.ExecContext(ctx, `INSERT INTO api_keys (user_id, id, key_hash, hint, created_at) VALUES (?, ?, ?, ?, ?)`,
		k.UserID, k.ID, hash[:], k.Hint, k.CreatedAt)
	if err != nil {
		return APIKey{}, "", fmt.Errorf("server: keep the API key: %w", err)
	}
	return k, telemetry.Secret(key), nil
}

// ListAPIKeys returns the keys of a user, or of all users when userID is 0, oldest first.
func ListAPIKeys(ctx context.Context, db *sql.DB, userID int64) (_ []APIKey, err error) {
	rows, err := db.QueryContext(ctx, `SELECT user_id, id, hint, created_at, revoked_at FROM api_keys
		WHERE ? = 0 OR user_id = ? ORDER BY user_id, id`, userID, userID)
	if err != nil {
		return nil, fmt.Errorf("server: list the API keys: %w", err)
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	var out []APIKey
	for rows.Next() {
		var k APIKey
		var revoked sql.NullTime
		if err := rows.Scan(&k.UserID, &k.ID, &k.Hint, &k.CreatedAt, &revoked); err != nil {
			return nil, fmt.Errorf("server: list the API keys: %w", err)
		}
		k.RevokedAt = revoked.Time
		out = append(out, k)
	}
	return out, rows.Err()
}

// RevokeAPIKey ends a key. Servers may take it for as long as they remember it, at most [keyCacheHit]. [ErrNoAPIKey] when
// there is none to revoke.
func RevokeAPIKey(ctx context.Context, db *sql.DB, userID int64, id string) error {
	res, err := db.ExecContext(ctx, `UPDATE api_keys SET revoked_at = NOW(3) WHERE user_id = ? AND id = ? AND revoked_at IS NULL`, userID, id)
	if err != nil {
		return fmt.Errorf("server: revoke the API key: %w", err)
	}
	n, err := res.RowsAffected()
	if err != nil {
		return fmt.Errorf("server: revoke the API key: %w", err)
	}
	if n == 0 {
		return ErrNoAPIKey
	}
	return nil
}

// keyOwner returns whose key has this hash; ok is false for a key that is unknown or revoked.
func keyOwner(ctx context.Context, db *sql.DB, hash [sha256.Size]byte) (userID int64, ok bool, err error) {
	var stored []byte
	var revoked sql.NullTime
	err = db.QueryRowContext(ctx, `SELECT user_id, key_hash, revoked_at FROM api_keys WHERE key_hash = ?`, hash[:]).
		Scan(&userID, &stored, &revoked)
	if errors.Is(err, sql.ErrNoRows) {
		return 0, false, nil
	}
	if err != nil {
		return 0, false, fmt.Errorf("server: look up the API key: %w", err)
	}
	return userID, subtle.ConstantTimeCompare(stored, hash[:]) == 1 && !revoked.Valid, nil
}
