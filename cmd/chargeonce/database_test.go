package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestADSNBesideAPasswordFileIsNotShownWhenItDoesNotParse(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "password")
	if err := os.WriteFile(file, []byte("from the file\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := mysqlFlags{DSN: "root:S3cretPw/payments", PasswordFile: file}.dsn()
	if err == nil || strings.Contains(err.Error(), "S3cret") {
		t.Errorf("%v", err)
	}
}
