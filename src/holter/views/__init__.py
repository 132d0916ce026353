"""What is shown, as plain data: a view is a function from an opened trial to a document, without layout."""
