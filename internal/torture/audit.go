package torture

import (
	"context"
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"time"
)

// auditTable gets a row for every write to a key that has taken effect, in the same transaction, so one that was rolled back
// leaves none. Of one key, the ids have the order of the writes, since a row is locked while its trigger runs.
const auditTable = `
	CREATE TABLE torture_audit (
	  id           BIGINT AUTO_INCREMENT PRIMARY KEY,
	  began        DATETIME(6) NOT NULL,
	  at           DATETIME(6) NOT NULL,
	  conn         BIGINT UNSIGNED NOT NULL,
	  account      VARCHAR(64) NOT NULL,
	  op           VARCHAR(8) NOT NULL,
	  user_id      BIGINT NOT NULL,
	  idem_key     VARBINARY(255) NOT NULL,
	  old_lease    BIGINT, old_holder BINARY(16), old_status VARCHAR(16), old_until DATETIME(3), old_code INT, old_body BIGINT, old_done DATETIME(3),
	  new_lease    BIGINT, new_holder BINARY(16), new_status VARCHAR(16), new_until DATETIME(3), new_code INT, new_body BIGINT, new_done DATETIME(3)
	) ENGINE = InnoDB`

// auditTrigger records what a write has made of what. NOW(6) is when the statement began, SYSDATE(6) when it got the row.
func auditTrigger(op string) string {
	side := func(row string) string {
		if (op == "INSERT" && row == "OLD") || (op == "DELETE" && row == "NEW") {
			return "NULL, NULL, NULL, NULL, NULL, NULL, NULL"
		}
		return strings.ReplaceAll("R.lease, R.holder, R.status, R.locked_until, R.response_code, CRC32(R.response_body), R.completed_at", "R.", row+".")
	}
	key := "NEW"
	if op == "DELETE" {
		key = "OLD"
	}
	return fmt.Sprintf(`
		CREATE TRIGGER torture_%[1]s AFTER %[1]s ON idempotency_keys FOR EACH ROW
		INSERT INTO torture_audit
		  (began, at, conn, account, op, user_id, idem_key,
		   old_lease, old_holder, old_status, old_until, old_code, old_body, old_done,
		   new_lease, new_holder, new_status, new_until, new_code, new_body, new_done)
		VALUES (NOW(6), SYSDATE(6), CONNECTION_ID(), SUBSTRING_INDEX(USER(), '@', 1), '%[1]s', %[2]s.user_id, %[2]s.idem_key, %[3]s, %[4]s)`,
		op, key, side("OLD"), side("NEW"))
}

// installAudit makes the audit. Nobody but this package does: the service runs without it.
func installAudit(ctx context.Context, db *sql.DB) error {
	for _, statement := range []string{auditTable, auditTrigger("INSERT"), auditTrigger("UPDATE"), auditTrigger("DELETE")} {
		if _, err := db.ExecContext(ctx, statement); err != nil {
			return fmt.Errorf("torture: install the audit: %w", err)
		}
	}
	return nil
}

// auditRow is one write to a key.
type auditRow struct {
	began, at time.Time
	conn      uint64
	writer    string // the process
	op        string
	slot      slot
	old, now  keyState
}

// keyState is what the audit keeps of a key's row.
type keyState struct {
	lease  int64
	holder string
	status string
	until  time.Time
	code   int64
	body   int64 // a checksum; 0 when there is none
	done   time.Time
}

func (k keyState) String() string {
	if k.status == "" {
		return "nothing"
	}
	text := fmt.Sprintf("%s lease %d holder %.8s until %s", k.status, k.lease, k.holder, k.until.Format(clock))
	if k.status == "done" {
		text += fmt.Sprintf(" answer %d (%08x) at %s", k.code, k.body, k.done.Format(clock))
	}
	return text
}

// clock is how times are printed.
const clock = "15:04:05.000000"

const auditSQL = `
	SELECT began, at, conn, account, op, user_id, idem_key,
	  old_lease, old_holder, old_status, old_until, old_code, old_body, old_done,
	  new_lease, new_holder, new_status, new_until, new_code, new_body, new_done
	FROM torture_audit ORDER BY id`

// readAudit reads every write, in order.
func (s *site) readAudit(ctx context.Context) (out []auditRow, err error) {
	rows, err := s.db.QueryContext(ctx, auditSQL)
	if err != nil {
		return nil, fmt.Errorf("torture: read the audit: %w", err)
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		var r auditRow
		var key []byte
		var account string
		var old, now nullState
		into := append([]any{&r.began, &r.at, &r.conn, &account, &r.op, &r.slot.user, &key}, append(old.targets(), now.targets()...)...)
		if err := rows.Scan(into...); err != nil {
			return nil, fmt.Errorf("torture: read the audit: %w", err)
		}
		r.writer, r.slot.key, r.old, r.now = s.accountName(account), string(key), old.state(), now.state()
		out = append(out, r)
	}
	return out, rows.Err()
}

// nullState is one side of an audit row as the driver gives it.
type nullState struct {
	lease, code, body sql.NullInt64
	holder            []byte
	status            sql.NullString
	until, done       sql.NullTime
}

func (n *nullState) targets() []any {
	return []any{&n.lease, &n.holder, &n.status, &n.until, &n.code, &n.body, &n.done}
}

func (n *nullState) state() keyState {
	return keyState{
		lease: n.lease.Int64, holder: hex.EncodeToString(n.holder), status: n.status.String, until: n.until.Time,
		code: n.code.Int64, body: n.body.Int64, done: n.done.Time,
	}
}
