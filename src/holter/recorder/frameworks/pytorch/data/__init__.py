"""Data loading and transfers: loaders, fetches and stack samples of datasets."""
