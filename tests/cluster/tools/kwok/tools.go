//go:build tools

// Names the programs to build, so that go.mod and go.sum pin everything they need.
package tools

import (
	_ "sigs.k8s.io/kwok/cmd/kwok"
)
