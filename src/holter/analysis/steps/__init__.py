"""Steps of a training: from spans to rows, parts of a step, epochs, warm-up and outliers."""
