"""A loop that logs to W&B, MLflow and Trackio, all without a network."""

import json
import time

import mlflow
import trackio
import wandb

import holter

run = wandb.init(project="tracked-project", settings=wandb.Settings(silent=True, x_disable_stats=True))
trackio.init(project="tracked", embed=False)
with mlflow.start_run() as started:
    for step in range(120):
        with holter.step():
            time.sleep(0.1)
        run.log({"loss": 1.0})
        trackio.log({"loss": 1.0})
        mlflow.log_metric("loss", 1.0, step=step)
with open("runs.json", "w") as file:
    json.dump({"wandb": run.id, "mlflow": started.info.run_id}, file)
trackio.finish()
run.finish()
