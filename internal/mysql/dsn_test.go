package mysql_test

import (
	"errors"
	"strings"
	"testing"

	"chargeonce/internal/mysql"
)

// The driver's error repeats a part of the DSN, and where a slash or an @ is missing that part is of the password.
func TestADSNThatDoesNotParseIsNotShown(t *testing.T) {
	t.Parallel()
	for _, dsn := range []string{"root:S3cretPw/payments", "root:S3cretPw/x@tcp(127.0.0.1:3306)", "S3cretPw"} {
		_, err := mysql.Config(dsn, mysql.Options{})
		if !errors.Is(err, mysql.ErrDSN) || strings.Contains(err.Error(), "S3cret") {
			t.Errorf("%v", err)
		}
	}
}
