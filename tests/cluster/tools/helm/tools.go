//go:build tools

// Names the programs to build, so that go.mod and go.sum pin everything they need.
package tools

import (
	_ "helm.sh/helm/v4/cmd/helm"
)
