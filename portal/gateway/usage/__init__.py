"""The account book as people read it: in the admin and as CSV."""
