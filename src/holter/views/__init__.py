"""What is shown, as plain data: one view a file, a function from an opened trial to a document; no text layout, no colors."""
