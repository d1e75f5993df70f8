package dev.octet.formats.safetensors;

/** Makes Java's UTF-16 text behave like the UTF-8 text of a header. */
final class Surrogates {
    private Surrogates() {}

    /** Whether every surrogate is part of a pair, so that the text has a UTF-8 form. */
    static boolean paired(String text) {
        for (int i = 0; i < text.length(); i++) {
            if (Character.isSurrogate(text.charAt(i))) {
                if (i + 1 == text.length() || !Character.isSurrogatePair(text.charAt(i), text.charAt(i + 1))) {
                    return false;
                }
                i++;
            }
        }
        return true;
    }

    /** UTF-8 bytes compare as code points do, UTF-16 units do not: U+FF5E comes before U+1F600, its unit after 0xD83D. */
    static int compareCodePoints(String a, String b) {
        int n = Math.min(a.length(), b.length());
        for (int i = 0; i < n; i++) {
            char x = a.charAt(i);
            char y = b.charAt(i);
            if (x != y) {
                boolean surrogateX = Character.isSurrogate(x);
                boolean surrogateY = Character.isSurrogate(y);
                return surrogateX == surrogateY ? Character.compare(x, y) : Boolean.compare(surrogateX, surrogateY);
            }
        }
        return Integer.compare(a.length(), b.length());
    }
}
