#!/bin/bash
# What a container of the image is to be. The first word says it:
#
#   master, worker ...   a daemon of a standalone Spark cluster; what follows are its options
#   executor             an executor on Kubernetes: Spark says so, and the rest in variables
#   driver ...           a driver that spark-submit has started on Kubernetes, in cluster mode
#   anything else        a firesteel command, or a program of its own: cluster, run, list, python, bash ...
#
# FIRESTEEL_PROPERTIES: options, one on each line, that join those of the configuration file.
set -euo pipefail

spark_home() { python -c 'import pyspark, os; print(os.path.dirname(pyspark.__file__))'; }

if [ -n "${FIRESTEEL_PROPERTIES:-}" ]; then
  directory="$(mktemp -d)"
  if [ -n "${FIRESTEEL_CONF_DIR:-}" ]; then cat "$FIRESTEEL_CONF_DIR/config.yaml" > "$directory/config.yaml"; fi
  printf '\n%s\n' "$FIRESTEEL_PROPERTIES" >> "$directory/config.yaml"
  export FIRESTEEL_CONF_DIR="$directory"
fi

case "${1:-}" in
  master | worker)
    export SPARK_HOME="${SPARK_HOME:-$(spark_home)}"
    kind="org.apache.spark.deploy.$1.${1^}"
    shift
    exec "$SPARK_HOME/bin/spark-class" "$kind" --host "${SPARK_DAEMON_HOST:-$(hostname)}" "$@"
    ;;
  executor)
    SPARK_HOME="${SPARK_HOME:-$(spark_home)}"
    options=()
    # SPARK_JAVA_OPT_0, SPARK_JAVA_OPT_1, ...: each is one word of Java's command line, in their order.
    while IFS= read -r name; do options+=("${!name}"); done < <(compgen -v SPARK_JAVA_OPT_ | sort -t_ -k4 -n)
    exec java ${options[@]+"${options[@]}"} "-Xms$SPARK_EXECUTOR_MEMORY" "-Xmx$SPARK_EXECUTOR_MEMORY" \
      -cp "${SPARK_CONF_DIR:-$SPARK_HOME/conf}:$SPARK_HOME/jars/*:${SPARK_CLASSPATH:-}" \
      org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend \
      --driver-url "$SPARK_DRIVER_URL" --executor-id "$SPARK_EXECUTOR_ID" --cores "$SPARK_EXECUTOR_CORES" \
      --app-id "$SPARK_APPLICATION_ID" --hostname "$SPARK_EXECUTOR_POD_IP" \
      --resourceProfileId "$SPARK_RESOURCE_PROFILE_ID" --podName "$SPARK_EXECUTOR_POD_NAME"
    ;;
  driver)
    shift
    export SPARK_HOME="${SPARK_HOME:-$(spark_home)}"
    exec "$SPARK_HOME/bin/spark-submit" --deploy-mode client \
      --conf "spark.driver.bindAddress=$SPARK_DRIVER_BIND_ADDRESS" "$@"
    ;;
  *)
    # A word that is no program of the image is a command of firesteel.
    if [ $# -gt 0 ] && command -v -- "$1" > /dev/null; then exec "$@"; fi
    exec firesteel "$@"
    ;;
esac
