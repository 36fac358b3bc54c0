"""What has arrived against what chunk markers count (I9)."""
