package dev.octet.spark;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Objects;
import org.apache.spark.SparkConf;
import org.apache.spark.api.java.JavaSparkContext;

/** Contexts of Spark for tests; a JVM has one at a time. */
final class SparkContexts {
    /** What test classes that have one hold meanwhile. */
    static final String LOCK = "the context of Spark";

    private SparkContexts() {}

    /** Two threads of this process. */
    static JavaSparkContext local() {
        return new JavaSparkContext(conf("local[2]"));
    }

    static SparkConf conf(String master) {
        return new SparkConf()
                .setMaster(master)
                .setAppName("octet test")
                .set("spark.ui.enabled", "false")
                .set("spark.driver.host", "127.0.0.1")
                .set("spark.driver.bindAddress", "127.0.0.1")
                .set("spark.sql.shuffle.partitions", "2")
                .set("spark.sql.warehouse.dir", System.getProperty("java.io.tmpdir") + "/octet-warehouse");
    }

    /**
     * Executors that are processes of their own, each with one core. The variable SPARK_HOME names a folder, which becomes an
     * installation of Spark as far as workers look.
     */
    static JavaSparkContext cluster(int executors) throws IOException {
        Path home =
                Path.of(Objects.requireNonNull(System.getenv("SPARK_HOME"), "SPARK_HOME: see the module's pom.xml"));
        Files.createDirectories(home.resolve("jars"));
        if (!Files.exists(home.resolve("RELEASE"))) {
            Files.createFile(home.resolve("RELEASE"));
        }
        SparkConf conf = conf("local-cluster[" + executors + ",1,1024]")
                .setExecutorEnv("SPARK_SCALA_VERSION", "2.13")
                .setExecutorEnv("SPARK_LOCAL_IP", "127.0.0.1")
                .set("spark.executor.memory", "512m")
                .set("spark.executor.extraClassPath", System.getProperty("java.class.path"))
                .set(
                        "spark.executor.extraJavaOptions",
                        "--add-modules jdk.incubator.vector --enable-native-access=ALL-UNNAMED -Doctet.testdata="
                                + System.getProperty("octet.testdata"));
        return new JavaSparkContext(conf);
    }
}
