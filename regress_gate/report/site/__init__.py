"""The static dashboard of a store: pages, a feed and data files from plain values. It is filled by `app.site`."""
