# The dashboard of a store.
#   docker build -t holter -f dashboard.Dockerfile .
#   docker run --rm --network host -v "$PWD/holter-jobs:/jobs" holter
FROM python:3.13-slim

RUN pip install --no-cache-dir holter
RUN useradd --create-home holter
USER holter

# A bucket: -e HOLTER_STORE=s3://bucket/jobs -e AWS_ACCESS_KEY_ID=…
ENV HOLTER_STORE=/jobs
ENTRYPOINT ["holter", "ui"]
