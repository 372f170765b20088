;; An extension of respool that says who is asked. It is asked about GET:
;;
;;   GET copy:…      the read target `copy` is asked first
;;   GET fresh:…     the upstream is asked, and no read target
;;   all else        goes as it would without this program
(module
  ;; 256 KiB: the first page is for what is said, the others for the request.
  (memory (export "memory") 4)
  (data (i32.const 512) "Rcopy")
  (data (i32.const 528) "U")

  (func (export "respool_buffer") (param $len i32) (result i32)
    (select (i32.const 65536) (i32.const 0) (i32.le_u (local.get $len) (i32.const 196608))))

  ;; The address behind the end of this line.
  (func $next_line (param $at i32) (result i32)
    (loop $more
      (local.set $at (i32.add (local.get $at) (i32.const 1)))
      (br_if $more (i32.ne (i32.load8_u (i32.sub (local.get $at) (i32.const 1))) (i32.const 10))))
    (local.get $at))

  (func (export "respool_request") (param $at i32) (param $len i32) (result i64)
    (local $line i32) (local $lines i32)
    ;; The key is the fifth line: *2, $3, GET, its length, the key.
    (local.set $line (local.get $at))
    (loop $more
      (local.set $line (call $next_line (local.get $line)))
      (local.set $lines (i32.add (local.get $lines) (i32.const 1)))
      (br_if $more (i32.lt_u (local.get $lines) (i32.const 4))))

    ;; "copy" and a colon.
    (if (i32.and
          (i32.eq (i32.load (local.get $line)) (i32.const 0x79706f63))
          (i32.eq (i32.load8_u offset=4 (local.get $line)) (i32.const 58)))
      (then (return (i64.or (i64.shl (i64.const 512) (i64.const 32)) (i64.const 5)))))

    ;; "fres", and "h:".
    (if (i32.and
          (i32.eq (i32.load (local.get $line)) (i32.const 0x73657266))
          (i32.eq (i32.load16_u offset=4 (local.get $line)) (i32.const 0x3a68)))
      (then (return (i64.or (i64.shl (i64.const 528) (i64.const 32)) (i64.const 1)))))

    (i64.const 0)))
