# recstudy with all that it uses: Java for METEOR, Chromium for figures in PDF, a compiler for torch.compile.
#   docker build -t recstudy .                                  GPUs: docker run --gpus all ...; torch brings its CUDA libraries
#   docker build -t recstudy --build-arg TORCH_INDEX=URL .      CPU only, with an index that has such wheels: 5 GB less
#   docker run --rm --shm-size=4g -v "$PWD/results:/recstudy/results" recstudy      make demo
ARG BASE=python:3.12-slim-bookworm
# hadolint ignore=DL3006
FROM ${BASE}
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install -y --no-install-recommends chromium default-jre-headless g++ git make \
    && rm -rf /var/lib/apt/lists/*
WORKDIR /recstudy
# Not in /recstudy, which .devcontainer mounts the checkout over.
ENV VENV=/opt/venv PATH=/opt/venv/bin:$PATH
ARG TORCH_INDEX=
COPY Makefile pyproject.toml README.md ./
COPY recstudy recstudy
RUN make setup TORCH_INDEX="${TORCH_INDEX}"
COPY . .
CMD ["make", "demo"]
