package server_test

import (
	"errors"
	"regexp"
	"testing"

	"github.com/google/go-cmp/cmp"

	"chargeonce/internal/mysql"
	"chargeonce/internal/server"
)

// revokedKey makes a key and ends it before it was used.
func (e *env) revokedKey() (userID int64, id, key string) {
	e.t.Helper()
	k, secret, err := server.CreateAPIKey(e.t.Context(), e.db.DB, e.user)
	if err != nil {
		e.t.Fatal(err)
	}
	if err := server.RevokeAPIKey(e.t.Context(), e.db.DB, k.UserID, k.ID); err != nil {
		e.t.Fatal(err)
	}
	return k.UserID, k.ID, secret.Reveal()
}

func TestAPIKeysAreMadeListedAndRevoked(t *testing.T) {
	t.Parallel()
	db := mysql.NewTestDB(t)
	ctx := t.Context()
	first, secret, err := server.CreateAPIKey(ctx, db.DB, 7)
	if err != nil {
		t.Fatal(err)
	}
	if !regexp.MustCompile(`^sk_test_[A-Za-z0-9_-]{43}$`).MatchString(secret.Reveal()) {
		t.Errorf("the key is not sk_test_ and 256 bits in base64url")
	}
	if first.Hint != secret.Reveal()[:12] {
		t.Errorf("hint %q", first.Hint)
	}
	second, _, err := server.CreateAPIKey(ctx, db.DB, 7)
	if err != nil {
		t.Fatal(err)
	}
	other, _, err := server.CreateAPIKey(ctx, db.DB, 8)
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := server.CreateAPIKey(ctx, db.DB, 0); err == nil {
		t.Error("user 0 got a key")
	}

	if err := server.RevokeAPIKey(ctx, db.DB, 8, first.ID); !errors.Is(err, server.ErrNoAPIKey) {
		t.Errorf("revoke another user's key: %v, want ErrNoAPIKey", err)
	}
	if err := server.RevokeAPIKey(ctx, db.DB, 7, first.ID); err != nil {
		t.Fatal(err)
	}
	if err := server.RevokeAPIKey(ctx, db.DB, 7, first.ID); !errors.Is(err, server.ErrNoAPIKey) {
		t.Errorf("revoke twice: %v, want ErrNoAPIKey", err)
	}

	mine, err := server.ListAPIKeys(ctx, db.DB, 7)
	if err != nil {
		t.Fatal(err)
	}
	if len(mine) != 2 || mine[0].RevokedAt.IsZero() {
		t.Fatalf("keys of user 7: %+v, want two, the first revoked", mine)
	}
	mine[0].RevokedAt = first.RevokedAt
	if diff := cmp.Diff([]server.APIKey{first, second}, mine); diff != "" {
		t.Errorf("keys of user 7 (-want +got):\n%s", diff)
	}
	all, err := server.ListAPIKeys(ctx, db.DB, 0)
	if err != nil {
		t.Fatal(err)
	}
	if len(all) != 3 || all[2] != other {
		t.Errorf("all keys: %+v", all)
	}

	// What the table holds does not open the door.
	var hex string
	if err := db.QueryRowContext(ctx, `SELECT HEX(key_hash) FROM api_keys WHERE id = ?`, second.ID).Scan(&hex); err != nil {
		t.Fatal(err)
	}
	if len(hex) != 64 {
		t.Errorf("the table holds %d hex digits, want a SHA-256", len(hex))
	}
}
