package dev.octet.formats.file;

import java.util.Arrays;
import java.util.Locale;
import java.util.Optional;

/**
 * The platforms of Octet's native libraries, with their names in the jars. A jar may lack a platform; {@link NativeFiles} checks. To add a
 * platform, add a row here and a profile of its natives in {@code pom.xml}. {@code docs/platforms.md} lists the platforms that Octet was
 * run on.
 */
public enum Platform {
    LINUX_X86_64("linux-x86_64", "linux-x64", "linux-x86_64", "linux-x86-64"),
    LINUX_ARM64("linux-arm64", "linux-aarch64", "linux-aarch64", "linux-aarch64"),
    MACOS_ARM64("macosx-arm64", "osx-aarch64", "osx-aarch64", "darwin-aarch64"),
    MACOS_X86_64("macosx-x86_64", "osx-x64", "osx-x86_64", "darwin-x86-64"),
    WINDOWS_X86_64("windows-x86_64", "win-x64", "win-x86_64", "win32-x86-64");

    private static final Optional<Platform> CURRENT = of(System.getProperty("os.name"), System.getProperty("os.arch"));

    private final String artifact;
    private final String onnxRuntime;
    private final String tokenizers;
    private final String jna;

    Platform(String artifact, String onnxRuntime, String tokenizers, String jna) {
        this.artifact = artifact;
        this.onnxRuntime = onnxRuntime;
        this.tokenizers = tokenizers;
        this.jna = jna;
    }

    /** The platform of this process; empty for platforms not in this list. */
    public static Optional<Platform> current() {
        return CURRENT;
    }

    /** The platform of Java's names of system and processor: {@code Mac OS X}, {@code aarch64}. */
    static Optional<Platform> of(String system, String processor) {
        String os = system.toLowerCase(Locale.ROOT);
        String prefix = os.startsWith("linux")
                ? "linux-"
                : os.startsWith("mac") ? "macosx-" : os.startsWith("windows") ? "windows-" : os;
        String suffix = switch (processor) {
            case "amd64", "x86_64" -> "x86_64";
            case "aarch64", "arm64" -> "arm64";
            default -> processor;
        };
        return Arrays.stream(values())
                .filter(p -> p.artifact.equals(prefix + suffix))
                .findFirst();
    }

    /** The name of this machine's platform for messages, also of an unlisted one: {@code linux-x86_64}, {@code SunOS sparcv9}. */
    public static String text() {
        return CURRENT.map(Platform::artifact)
                .orElseGet(() -> System.getProperty("os.name") + " " + System.getProperty("os.arch"));
    }

    /** Whether the processor is x86. */
    public boolean isX86() {
        return this != LINUX_ARM64 && this != MACOS_ARM64;
    }

    /** The classifier of {@code org.bytedeco} and {@code org.jcuda}: {@code linux-x86_64}. */
    public String artifact() {
        return artifact;
    }

    /** The folder below {@code ai/onnxruntime/native}: {@code linux-x64}. */
    public String onnxRuntime() {
        return onnxRuntime;
    }

    /** The folder below {@code native/lib} of DJL's tokenizers: {@code linux-x86_64}. */
    public String tokenizers() {
        return tokenizers;
    }

    /** The folder below {@code com/sun/jna}: {@code linux-x86-64}. */
    public String jna() {
        return jna;
    }
}
