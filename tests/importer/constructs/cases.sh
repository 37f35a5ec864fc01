case "abc" in a) python 1;; a*|b) python 2;; *) python 3;; esac
case x in (y) python no;; [w-z]) python z;; esac; case "" in "") python e;; esac
case "a b" in "a b"|c) python x;;& a*) python y;; *) python no;; esac
case q in q) python a;& r) python b;; *) python no;; esac
