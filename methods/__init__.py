"""The built-in methods. They reach the harness as any plug-in does: by entry points in setup.cfg."""
